# The commands of an agent under `ctxfs shell`: written by `ctxfs install`, and replaced by it, or
# printed by `ctxfs shell --bash-env`.
#
# Bash reads this before a command, as `BASH_ENV` names it. The command runs in another shell, with
# the options of this one and what a profile has set. It and the programs that it starts see the
# `BASH_ENV` of the user, if there is one. Without ctxfs, the command runs in this shell.
{ __ctxfs_trace=${-//[!vx]/}; set +vx; } 2>/dev/null
__ctxfs_program=/usr/bin/ctxfs
__ctxfs_theirs=

# Succeeds for a command of a profile: a bash above it that runs a command was told to read this
# file, too.
__ctxfs_is_below() {
    local __ctxfs_pid=$PPID __ctxfs_vars __ctxfs_key __ctxfs_value IFS=$'\n'
    while { mapfile -d '' -t __ctxfs_vars <"/proc/$__ctxfs_pid/environ"; } 2>/dev/null; do
        [[ $'\n'"${__ctxfs_vars[*]}"$'\n' == *$'\n'"BASH_ENV=$BASH_ENV"$'\n'* ]] || return 1
        while IFS=$'\t' read -r __ctxfs_key __ctxfs_value && [[ $__ctxfs_key != PPid: ]]; do
            if [[ $__ctxfs_key$__ctxfs_value == Name:bash ]]; then
                mapfile -d '' -t __ctxfs_vars <"/proc/$__ctxfs_pid/cmdline"
                [[ ${__ctxfs_vars[1]-} != -*([!-])c*([!-]) && ${__ctxfs_vars[2]-} != -c ]] || return 0
            fi
        done <"/proc/$__ctxfs_pid/status"
        __ctxfs_pid=$__ctxfs_value
    done
    return 1
}

# Prints what makes another shell like this one.
__ctxfs_state() {
    local __ctxfs_names __ctxfs_name
    shopt -u execfail
    printf '{\n'
    declare -f
    alias -p
    shopt -p
    mapfile -t __ctxfs_names < <(compgen -v)
    for __ctxfs_name in "${__ctxfs_names[@]}"; do
        case $__ctxfs_name in
        BASH* | __ctxfs_* | _ | DIRSTACK | EPOCH* | FUNCNAME | GROUPS | LINENO | PIPESTATUS | *RANDOM) ;;
        *) declare -p "$__ctxfs_name" ;;
        esac
    done
    printf '%s\n} 2>/dev/null\neval "exec ${BASH_ENV##*/}<&-"\n' "$__ctxfs_traps"
    set +o
    printf '%s\n' "$__ctxfs_end"
}

__ctxfs_run() {
    # A restricted shell runs its command itself.
    ! shopt -q restricted_shell || return
    [[ -n ${BASH_EXECUTION_STRING+set} && -f $__ctxfs_program && -x $__ctxfs_program ]] || return
    local __ctxfs_line=("$BASH") __ctxfs_traps
    if shopt -q login_shell; then
        __ctxfs_line+=(--noprofile -l)
    else
        ! __ctxfs_is_below || return
    fi
    __ctxfs_line+=(-c "$BASH_EXECUTION_STRING")
    [[ $# == 0 && $0 == "$BASH" ]] || __ctxfs_line+=("$0" "$@")
    __ctxfs_line=(-- "${__ctxfs_line[@]}")
    [[ -z ${CODEX_TOOL_CALL_ID-} ]] || __ctxfs_line=("--id=$CODEX_TOOL_CALL_ID" "${__ctxfs_line[@]}")
    [[ -z ${CODEX_SESSION_ID-} ]] || __ctxfs_line=("--conversation=$CODEX_SESSION_ID" "${__ctxfs_line[@]}")
    __ctxfs_line=("$__ctxfs_program" shell --host=codex "${__ctxfs_line[@]}")
    shopt -s execfail
    if shopt -q login_shell || [[ $__ctxfs_trace$SHELLOPTS != braceexpand:hashall:interactive-comments ]]; then
        __ctxfs_traps=$(trap -p)
        BASH_ENV=<(__ctxfs_state) exec "${__ctxfs_line[@]}"
    elif [[ -n $__ctxfs_theirs ]]; then
        BASH_ENV=$__ctxfs_theirs exec "${__ctxfs_line[@]}"
    else
        unset -v BASH_ENV
        exec "${__ctxfs_line[@]}"
    fi
    shopt -u execfail
}

# What a shell does in the end that runs the command itself.
printf -v __ctxfs_end 'export BASH_ENV=%q; ' "$__ctxfs_theirs"
[[ -n $__ctxfs_theirs ]] || __ctxfs_end='unset -v BASH_ENV; '
__ctxfs_end+='unset -v ${!__ctxfs_*}; unset -f __ctxfs_is_below __ctxfs_state __ctxfs_run; '
[[ -z $__ctxfs_theirs ]] || __ctxfs_end+="[[ ! -r \"$__ctxfs_theirs\" ]] || . \"$__ctxfs_theirs\"; "
__ctxfs_end+="set -$__ctxfs_trace"

if [[ ${BASH_EXECUTION_STRING-} == __CODEX_SNAPSHOT_* ]]; then
    # Sets up the environment of the command, and becomes the shell that runs it.
    printf -v __ctxfs_end '%s; export BASH_ENV=%q' "$__ctxfs_end" "$BASH_ENV"
else
    __ctxfs_run "$@" || :
fi
eval "$__ctxfs_end"
