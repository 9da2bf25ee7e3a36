# The filters that agents put behind a command, such as `tail`, as functions of the agent's own shell.
# Bash reads this before the command. A child that gets such a function by `export -f` just filters.
#
# The command may define functions with the names of builtins, hence `builtin`.
#
# A filter that reads a pipe to its end, and writes to a pipe, runs beside `ctxfs shell --pipe`, which
# passes to it what comes in, and passes on what it writes. In all other cases the filter just runs.
# Either is what the shell would have run: a function of that name, or else a program.
{ __ctxfs_trace=${-//[!vx]/}; \builtin set +vx; } 2>/dev/null
__ctxfs_aliases=-u
\builtin shopt -q expand_aliases && __ctxfs_aliases=-s
\builtin shopt -u expand_aliases

# Succeeds if a filter with these arguments reads its input to the end, and no files.
function __ctxfs_pipe_is_whole {
    builtin local __ctxfs_flags __ctxfs_with __ctxfs_long __ctxfs_scripts=1 __ctxfs_texts='' __ctxfs_options=1 __ctxfs_word
    case $1 in
    tail) __ctxfs_flags='[0-9qvz]*' __ctxfs_with=nc __ctxfs_long='lines=.*|bytes=.*|quiet|silent|verbose' __ctxfs_scripts=0 ;;
    grep | egrep | fgrep)
        __ctxfs_flags='[0-9EFGPiyvwxcnbHhosaUT]*' __ctxfs_with=ABCe
        __ctxfs_long='(extended|basic|perl)-regexp|fixed-strings|ignore-case|invert-match|word-regexp|line-regexp|count|line-number|only-matching|no-messages|text|line-buffered|colou?r(=.*)?|(after-|before-|)context=.*|regexp=.*'
        ;;
    rg)
        __ctxfs_flags='[FPUSisvwxcnNoaHI]*' __ctxfs_with=ABCe
        __ctxfs_long='fixed-strings|pcre2|multiline|smart-case|case-sensitive|ignore-case|invert-match|word-regexp|line-regexp|count|(no-)?line-number|only-matching|text|no-heading|no-filename|line-buffered|color=.*|(after-|before-|)context=.*|regexp=.*'
        ;;
    sed) __ctxfs_flags='[nErsuz]*' __ctxfs_with=e __ctxfs_long='quiet|silent|regexp-extended|unbuffered|expression=.*' ;;
    awk) __ctxfs_flags= __ctxfs_with=Fv __ctxfs_long= ;;
    esac
    # `tail -n 0` reads nothing.
    [[ $1 != tail || ! " ${*:2} " =~ [nc=\ -]0+\  ]] || builtin return 1
    builtin local __ctxfs_tool="$1" __ctxfs_printing=1
    builtin shift
    while (($#)); do
        __ctxfs_word=$1
        builtin shift
        if ((__ctxfs_options)) && [[ $__ctxfs_word == -- ]]; then
            __ctxfs_options=0
        elif ((__ctxfs_options)) && [[ $__ctxfs_word == --* ]]; then
            [[ $__ctxfs_word =~ ^--($__ctxfs_long)$ ]] || builtin return 1
            case $__ctxfs_word in
            --regexp=* | --expression=*) __ctxfs_scripts=0 __ctxfs_texts+=" $__ctxfs_word" ;;
            --quiet | --silent) __ctxfs_printing=0 ;;
            esac
        elif ((__ctxfs_options)) && [[ $__ctxfs_word == -?* ]]; then
            [[ $__ctxfs_word =~ ^-$__ctxfs_flags([$__ctxfs_with](.*))?$ ]] || builtin return 1
            [[ $__ctxfs_tool != sed || ${__ctxfs_word%%e*} != *n* ]] || __ctxfs_printing=0
            if [[ ${BASH_REMATCH[1]-} == ? ]]; then
                (($#)) || builtin return 1
                __ctxfs_word=${BASH_REMATCH[1]}$1
                builtin shift
            else
                __ctxfs_word=${BASH_REMATCH[1]-}
            fi
            [[ $__ctxfs_word != e* ]] || __ctxfs_scripts=0 __ctxfs_texts+=" ${__ctxfs_word:1}"
        elif ((__ctxfs_scripts-- > 0)); then
            __ctxfs_texts+=" $__ctxfs_word"
            [[ $__ctxfs_tool != awk ]] || __ctxfs_options=0
        else
            builtin return 1
        fi
    done
    case $__ctxfs_tool in
    tail) ;;
    sed) ((__ctxfs_scripts <= 0 && !__ctxfs_printing)) && [[ $__ctxfs_texts != *[qQ]* ]] ;;
    awk) ((__ctxfs_scripts <= 0)) && [[ ! $__ctxfs_texts =~ BEGIN|exit|getline|nextfile|system ]] ;;
    *) ((__ctxfs_scripts <= 0)) ;;
    esac
}

function __ctxfs_pipe {
    builtin local __ctxfs_tool __ctxfs_in __ctxfs_out __ctxfs_status=0
    __ctxfs_tool=(builtin command "$1")
    ! builtin declare -F "__ctxfs_pipe_$1" >/dev/null || __ctxfs_tool=("__ctxfs_pipe_$1")
    # With few descriptors or a small stack, two more processes could not be started. A filter that
    # ignores SIGPIPE says itself that nothing reads its output. Behind `builtin`, `exec` would close
    # no file descriptors.
    if ((BASH_SUBSHELL == 0)) || [[ ! -p /dev/stdin || ! -p /dev/stdout || -v __ctxfs_from ||
        ! -x ${__ctxfs_words[0]-} ]] || ! __ctxfs_pipe_is_whole "$@" || builtin declare -F exec >/dev/null ||
        [[ ! $(builtin ulimit -n; builtin ulimit -s; builtin trap -p PIPE) =~ ^[0-9]{3,}$'\n'([0-9]{4,}|unlimited)$ ]]; then
        "${__ctxfs_tool[@]}" "${@:2}"
        builtin return
    fi
    builtin local __ctxfs_from __ctxfs_to __ctxfs_pid __ctxfs_above=$BASHPID
    exec {__ctxfs_in}<&0 {__ctxfs_out}>&1
    coproc __ctxfs {
        exec "${__ctxfs_words[@]}" --above="$__ctxfs_above" -- "$@" \
            3<&0 4>&1 <&"$__ctxfs_in" >&"$__ctxfs_out" {__ctxfs_in}<&- {__ctxfs_out}>&-
    }
    __ctxfs_pid=$!
    exec {__ctxfs_in}<&- {__ctxfs_out}>&- {__ctxfs_from}<&"${__ctxfs[0]}" {__ctxfs_to}>&"${__ctxfs[1]}" \
        {__ctxfs[0]}<&- {__ctxfs[1]}>&-
    "${__ctxfs_tool[@]}" "${@:2}" <&"$__ctxfs_from" >&"$__ctxfs_to" {__ctxfs_from}<&- {__ctxfs_to}>&- ||
        __ctxfs_status=$?
    exec {__ctxfs_from}<&- {__ctxfs_to}>&-
    builtin wait "$__ctxfs_pid" || __ctxfs_status=$?
    builtin return "$__ctxfs_status"
}

__ctxfs_words=(ctxfs)
__ctxfs_names=(tail grep egrep fgrep rg sed awk)
# Older shells have no options that are local to a function.
((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) || __ctxfs_names=(no-filter)
__ctxfs_found=$'\n'$(declare -f "${__ctxfs_names[@]}") || :
for __ctxfs_name in "${__ctxfs_names[@]}"; do
    type "$__ctxfs_name" &>/dev/null || continue
    if declare -F "$__ctxfs_name" >/dev/null; then
        __ctxfs_found=${__ctxfs_found/$'\n'"$__ctxfs_name ()"/$'\n'"__ctxfs_pipe_$__ctxfs_name ()"}
    fi
done
eval "$__ctxfs_found"
for __ctxfs_name in "${__ctxfs_names[@]}"; do
    ! type "$__ctxfs_name" &>/dev/null ||
        eval "function $__ctxfs_name {
            { builtin local -; builtin set +ekxET; } 2>/dev/null
            if [[ -v __ctxfs_words ]]; then __ctxfs_pipe $__ctxfs_name \"\$@\"
            else builtin command $__ctxfs_name \"\$@\"; fi || builtin return
        }"
done
unset -v __ctxfs_names __ctxfs_found __ctxfs_name
{ shopt "$__ctxfs_aliases" expand_aliases; exec {__ctxfs_fd}<&-; unset -v __ctxfs_aliases __ctxfs_fd; set -"$__ctxfs_trace"; }
