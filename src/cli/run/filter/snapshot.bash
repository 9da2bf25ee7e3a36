# The snapshot of Claude Code defines filters as functions that run programs of its own. These call
# them, or in a pipe the program of ctxfs, which then calls them in a shell of its own.
for __ctxfs_name in grep rg; do
    __ctxfs_text=$(builtin declare -f "$__ctxfs_name") || continue
    [[ $__ctxfs_text == *'exec -a '* ]] || continue
    printf -v __ctxfs_quoted %q "$__ctxfs_text"
    eval "__ctxfs_$__ctxfs_text
    $__ctxfs_name () {
        if [[ \$- != *r* && -x $__ctxfs_dir/$__ctxfs_name && -p /dev/stdin && -p /dev/stdout ]]; then
            CTXFS_FILTER_FUNCTION=$__ctxfs_quoted $__ctxfs_dir/$__ctxfs_name \"\$@\"
        else __ctxfs_$__ctxfs_name \"\$@\"; fi
    }"
done
unset -v __ctxfs_name __ctxfs_text __ctxfs_quoted __ctxfs_dir
