"""Coverage-guided fuzzing of everything that reads bytes of others:  make fuzz ARGS="--seconds 60"

    kafka      requests of every API and version
    batch      opening record batches, all codecs
    native     heads of the native protocol, and its frames
    peer       frames between nodes, and what they carry
    sqs_json   requests of SQS in JSON
    sqs_query  requests of SQS in forms
    append     payloads of APPEND entries

A target takes bytes and may raise nothing but the declared error. Each runs in a process of its own
with libFuzzer's bounds: a second for an input, 2 GiB of memory. The engine is atheris, which only
this target needs; `make fuzz` installs it. Where there is no wheel of it, that is said and nothing
is fuzzed. The corpus grows in `build/fuzz/`; it begins with the captured requests of `corpus/`. A
failure leaves its input there, and is repeated with `--only kafka --input FILE`.

`--without-engine N` feeds each target N mutants of its seeds without atheris: it finds less, and
needs nothing.
"""

import argparse
import subprocess
import sys
from pathlib import Path

INPUT_SECONDS_MAX = 1
MEMORY_MIB_MAX = 2_048
TARGETS = ("kafka", "batch", "native", "peer", "sqs_json", "sqs_query", "append")


def _fuzz_here(name: str, arguments: list[str]) -> None:
    """In a process of its own: libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["penstock"]):
        from tests.abuse import codec_targets
    atheris.Setup([sys.argv[0], *arguments], codec_targets.TARGETS[name])
    atheris.Fuzz()


def _fuzz_apart(name: str, options: argparse.Namespace) -> int:
    from tests.abuse.codec_targets import INPUT_BYTES_MAX, seeds_of

    directory = Path(options.output) / name
    directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds_of(name)):
        (directory / f"seed-{number:04}").write_bytes(seed)
    arguments = [
        *([options.input] if options.input else [str(directory)]),
        f"-max_total_time={int(options.seconds)}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-artifact_prefix={options.output}/{name}-",
        f"-seed={options.seed}",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    command = [sys.executable, "-m", "tests.abuse.codec_fuzz", "--here", name, *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    lines = done.stderr.splitlines()
    counted = [line.split()[-1] for line in lines if "number_of_executed_units" in line]
    verdict = "holds" if done.returncode == 0 else "BREAKS"
    print(f"{name:<10} {verdict:<7} {counted[-1] if counted else '?':>12} inputs", flush=True)
    if done.returncode != 0:
        print("\n".join(lines[-40:]), flush=True)
    return done.returncode


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--here"]:
        _fuzz_here(arguments[1], arguments[2:])
        return 0
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), default=[])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", default="", help="a file: this input alone")
    parser.add_argument("--without-engine", type=int, default=0, help="so many mutants each")
    parser.add_argument("--required", action="store_true", help="fail if there is no engine")
    parser.add_argument("--output", default="build/fuzz")
    options = parser.parse_args(arguments)
    names = options.only or TARGETS
    if options.without_engine:
        from tests.abuse.codec_targets import fuzz_without_engine

        for name in names:
            rate = fuzz_without_engine(name, options.without_engine, options.seed)
            print(f"{name:<10} holds   {options.without_engine:>12} mutants, {rate:,.0f}/s")
        return 0
    try:
        import atheris
    except ImportError:
        print("NOT DONE: atheris is not installed, and there may be no wheel of it here")
        return 1 if options.required else 0
    assert atheris
    return max(_fuzz_apart(name, options) for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
