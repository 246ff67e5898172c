"""DynamoDB Local: Amazon's own DynamoDB in one process, from Maven.

It listens on every address of the machine and has no option against that, so a few lines of Java start it on the loopback
interface only. Its licence forbids us to pass it on; each machine fetches its own.
"""

from __future__ import annotations

from pathlib import Path

from tests.servers.process import LOOPBACK, ServerProcess, accepts_connections, free_port
from tests.servers.toolbox import run, tool

VERSION = "2.6.1"
REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "slatetests", "AWS_SECRET_ACCESS_KEY": "slate-test-secret"}

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId> <artifactId>dynamodb-local</artifactId> <version>1</version> <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>com.amazonaws</groupId> <artifactId>DynamoDBLocal</artifactId> <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

_LAUNCHER = f"""
import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

public class Loopback {{
  public static void main(String[] arguments) throws Exception {{
    var dynamodb = ServerRunner.createServerFromCommandLineArgs(arguments);
    var server = dynamodb.getClass().getDeclaredField("server");
    server.setAccessible(true);
    for (var connector : ((Server) server.get(dynamodb)).getConnectors())
      ((ServerConnector) connector).setHost("{LOOPBACK}");
    dynamodb.safeStart();
    dynamodb.join();
  }}
}}
"""


def _home() -> Path:
    return tool("dynamodb-local", VERSION, _build, expect="1 to 3 minutes, most of it download")


def _build(home: Path) -> None:
    (home / "pom.xml").write_text(_POM)
    copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    run([*copy, f"-DoutputDirectory={home / 'lib'}"], cwd=home, package="maven")
    for library in (home / "lib").glob("libsqlite4java-linux-*.so"):
        # It is looked up without the version that Maven puts into its name.
        library.rename(library.with_name(library.name.replace(f"-{library.stem.rpartition('-')[2]}", "")))
    (home / "Loopback.java").write_text(_LAUNCHER)
    run(["javac", "-cp", f"{home}/lib/*", "-d", home, "Loopback.java"], cwd=home, package="default-jdk-headless")


class DynamoDBLocal(ServerProcess):
    """Keeps its tables in memory; they end with the process."""

    def __init__(self, folder: Path) -> None:
        home = _home()
        self.port = free_port()
        self.endpoint = f"http://{LOOPBACK}:{self.port}"
        java = ["java", "-Xmx512m", f"-Djava.library.path={home}/lib", "-cp", f"{home}:{home}/lib/*", "Loopback"]
        super().__init__(
            "dynamodb-local",
            [*java, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(self.port)],
            log=folder / "dynamodb-local.log",
            ready=lambda: accepts_connections(self.port),
            cwd=folder,
        )

    @property
    def url(self) -> str:
        return f"dynamodb://slate-writes?region={REGION}&endpoint={self.endpoint}&create=true"
