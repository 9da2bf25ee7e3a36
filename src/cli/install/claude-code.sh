#!/bin/sh
# The commands of Claude Code under `ctxfs shell`: written by `ctxfs install`, and replaced by it.
#
# Claude Code starts its commands, hooks and MCP servers by this (`CLAUDE_CODE_SHELL_PREFIX`). Those
# of the model run under ctxfs. All others run as they would without this: so does what is watched
# while it runs, whose output is a socket, and everything where there is no ctxfs.
program=/usr/bin/ctxfs
shell=/bin/sh
case $AI_AGENT in
*_agent)
    shell=${SHELL:-/bin/sh}
    case $1 in
    */shell-snapshots/* | *' && pwd -P >| '*) [ ! -S /dev/fd/1 ] || program= ;;
    *) program= ;;
    esac
    ;;
*) program= ;;
esac
set -- "$shell" -c "$1"
if [ -f "$program" ] && [ -x "$program" ]; then
    # If it cannot be run, one shell ends here, and another goes on.
    trap 'exec "$@"' EXIT
    # In other shells `shopt` would be a program of the PATH.
    [ -z "$BASH_VERSION" ] || shopt -s execfail 2>/dev/null
    exec "$program" shell --host=claude-code ${CLAUDE_CODE_SESSION_ID:+"--conversation=$CLAUDE_CODE_SESSION_ID"} -- "$@"
fi
exec "$@"
