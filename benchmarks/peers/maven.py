"""Programs of the Java world, with everything they need, from Maven's packages.

Two resolvers are tried, and neither is told where packages come from: that is the configuration of
the machine. `mvn` is one; where it is not installed, Spark's `--packages` fetches the same files.
Only the version of the program is said here; those of what it needs are in its own description,
and both resolvers check what they fetch against the checksums beside it.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.places import java

WITHIN_SECONDS = 600
_LAST_WORDS = 200
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId>
  <artifactId>peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""


class CannotFetch(Exception):
    """No resolver is there, or none could; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A program by its coordinates."""

    group: str
    artifact: str
    version: str

    @property
    def jar(self) -> str:
        """The file that is there when it is."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        """As Spark wants them."""
        return f"{self.group}:{self.artifact}:{self.version}"

    def pom(self) -> str:
        """A project that needs it and nothing else."""
        return _POM.format(group=self.group, artifact=self.artifact, version=self.version)


KAFKA = Package(group="org.apache.kafka", artifact="kafka_2.13", version="4.3.1")
ELASTICMQ = Package(group="org.elasticmq", artifact="elasticmq-server_2.13", version="1.7.1")


def fetch(package: Package, home: Path) -> str:
    """Have it in `home/libs`; says what was done."""
    libs = home / "libs"
    if (libs / package.jar).exists():
        return f"{package.version} is there already"
    refusals = []
    for name, resolver in (("mvn", _by_maven), ("spark-submit", _by_spark)):
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as directory:
            try:
                jars = resolver(package, Path(directory))
                names = {plain_name(jar.name, package) for jar in jars}
                if package.jar not in names:
                    raise CannotFetch(f"{package.jar} did not come")
            except (CannotFetch, subprocess.TimeoutExpired) as error:
                refusals.append(f"{name}: {error}")
                continue
            shutil.rmtree(libs, ignore_errors=True)
            libs.mkdir(parents=True)
            for jar in jars:
                shutil.move(jar, libs / plain_name(jar.name, package))
        return f"{package.version} by {name}, {len(names)} files"
    raise CannotFetch("; ".join(refusals))


def plain_name(name: str, package: Package) -> str:
    """Ivy puts the group before the name of a file; the program's own is to be found again."""
    return name.removeprefix(f"{package.group}_")


def _by_maven(package: Package, directory: Path) -> list[Path]:
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotFetch("not installed")
    pom = directory / "pom.xml"
    pom.write_text(package.pom(), "utf-8")
    command = [
        *(maven, "--batch-mode", "--quiet", "--file", str(pom)),
        *("dependency:copy-dependencies", "-DincludeScope=runtime"),
        *(f"-DoutputDirectory={directory / 'libs'}",),
    ]
    _run(command, directory)
    return list((directory / "libs").glob("*.jar"))


def _by_spark(package: Package, directory: Path) -> list[Path]:
    """It fetches before it finds that there is nothing to be run, and leaves out Scala's library,
    which it has itself."""
    spark = _spark_home()
    found = java()
    if spark is None or found is None:
        raise CannotFetch("Spark or Java is not installed")
    command = [
        *(str(spark / "bin" / "spark-submit"), "--packages", package.coordinates),
        *("--conf", f"spark.jars.ivy={directory}", "--class", "Nothing", "nothing.jar"),
    ]
    home = str(found.resolve().parent.parent)
    try:
        _run(command, directory, {"JAVA_HOME": home})
    except CannotFetch:
        if not (directory / "jars").exists():
            raise
    scala = []
    for library in (spark / "jars").glob("scala-library-*.jar"):
        scala.append(directory / library.name)
        shutil.copy(library, scala[-1])
    return [*(directory / "jars").glob("*.jar"), *scala]


def _spark_home() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _run(command: list[str], directory: Path, more: dict[str, str] | None = None) -> None:
    ended = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **(more or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        check=False,
    )
    if ended.returncode:
        said = " ".join(f"{ended.stdout} {ended.stderr}".split())
        raise CannotFetch(f"it ended with {ended.returncode}: {said[-_LAST_WORDS:]}")
