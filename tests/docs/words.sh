# What some words of a page mean when a test runs it. A reader starts brokers and
# builds; here the broker is there already, at addresses of its own, and `make` only says what it would do.
penstock() {
    case "${1-} ${2-}" in
        "dev "*) echo "(it runs already)" ;;
        "cluster dev") echo "(it runs already)" ;;
        "serve "*) shift && penstock config check "$@" ;;
        *) command penstock "$@" ;;
    esac
}
make() {
    command make --dry-run --directory "$SOURCES_ROOT" "$@" > /dev/null && echo "(make $1 would run)"
}
