# The words of a page that starts its broker itself. What would install for minutes is only checked.
penstock() {
    case "${1-}" in
        "serve") shift && command penstock config check "$@" ;;
        *) command penstock "$@" ;;
    esac
}
make() {
    command make --dry-run --directory "$SOURCES_ROOT" "$@" > /dev/null
    case "${INSTALLS-no} ${1-}" in
        "yes run") command make run ;;
        "no run") command penstock dev ;;
        *) echo "(make $1 would run)" ;;
    esac
}
