"""The manifests in `kubernetes/`: valid, in step with each other and with the image, and their gateway serves."""

import importlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.traces.postgres import Database
from toolwire.gateway import serving

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
MANIFESTS = [manifest for file in FILES for manifest in yaml.safe_load_all(file.read_text())]
IDS = [f"{manifest['kind']} {manifest['metadata']['name']}" for manifest in MANIFESTS]
VERSIONS = ("1.25", "1.31", "1.37")
needs_validator = pytest.mark.skipif(
    importlib.util.find_spec("kubernetes_validate") is None,
    reason="kubernetes-validate is not installed; it is in requirements/check.txt",
)


def of_kind(kind: str, name: str = "toolwire") -> dict[str, Any]:
    """Return one manifest."""
    [found] = [one for one in MANIFESTS if one["kind"] == kind and one["metadata"]["name"] == name]
    return dict(found)


POD: dict[str, Any] = of_kind("Deployment")["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
SETTINGS: str = of_kind("ConfigMap")["data"]["toolwire.toml"]


@needs_validator
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=IDS)
def test_each_manifest_is_valid(manifest: dict[str, Any], version: str) -> None:
    validator = importlib.import_module("kubernetes_validate")
    assert validator.validate(manifest, version, strict=True) == version


@needs_validator
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "template", "spec", "containers", 0, "readinessProb"), {}),
        (("spec", "template", "spec", "terminationGracePeriodSeconds"), "45"),
        (("spec", "replicas"), "two"),
    ],
)
def test_a_wrong_manifest_is_refused(path: tuple[Any, ...], value: Any) -> None:
    """A control."""
    validator = importlib.import_module("kubernetes_validate")
    wrong = next(yaml.safe_load_all((FOLDER / "gateway.yaml").read_text()))
    inner = wrong
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(validator.ValidationError):
        validator.validate(wrong, VERSIONS[-1], strict=True)


def test_the_manifests_are_those_of_a_deployment_a_service_secrets_and_settings() -> None:
    assert sorted(IDS) == [
        "ConfigMap toolwire",
        "Deployment toolwire",
        "Secret toolwire-database",
        "Secret toolwire-keys",
        "Service toolwire",
    ]


def test_the_names_in_the_manifests_are_names_of_each_other() -> None:
    [variable] = CONTAINER["env"]
    reference = variable["valueFrom"]["secretKeyRef"]
    assert reference["key"] in of_kind("Secret", reference["name"])["stringData"]
    assert f'database = "${variable["name"]}"' in SETTINGS
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in POD["spec"]["volumes"]}
    assert mounts.keys() == volumes.keys()
    settings_file = Path(CONTAINER["args"][CONTAINER["args"].index("--config") + 1])
    assert str(settings_file.parent) == mounts["settings"]
    assert settings_file.name in of_kind("ConfigMap", volumes["settings"]["configMap"]["name"])["data"]
    keys = of_kind("Secret", volumes["keys"]["secret"]["secretName"])["stringData"]
    assert sorted(re.findall(r'key_file = "(.*)"', SETTINGS)) == sorted(f"{mounts['keys']}/{name}" for name in keys)
    selector = of_kind("Deployment")["spec"]["selector"]["matchLabels"]
    assert selector == of_kind("Service")["spec"]["selector"] == POD["metadata"]["labels"]
    [port], [served] = CONTAINER["ports"], of_kind("Service")["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    assert CONTAINER["args"][-1].endswith(f":{port['containerPort']}")
    probes = {name: CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/health",
        "liveness": "/health",
        "readiness": "/ready",
    }
    assert {probe["port"] for probe in probes.values()} == {port["name"]}


def test_the_secrets_of_the_manifests_are_to_be_replaced() -> None:
    secrets = [manifest["stringData"] for manifest in MANIFESTS if manifest["kind"] == "Secret"]
    assert all("REPLACE" in value for secret in secrets for value in secret.values())


def test_the_gateway_has_no_rights_and_the_user_of_the_image() -> None:
    docker = (ROOT / "Dockerfile").read_text()
    [user] = re.findall(r"useradd --system --uid (\d+)", docker)
    pod, container = POD["spec"]["securityContext"], CONTAINER["securityContext"]
    assert (pod["runAsNonRoot"], str(pod["runAsUser"])) == (True, user)
    assert (container["readOnlyRootFilesystem"], container["allowPrivilegeEscalation"]) == (True, False)
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert POD["spec"]["automountServiceAccountToken"] is False
    assert 'ENTRYPOINT ["toolwire"]' in docker


def test_a_stop_leaves_time_for_running_requests() -> None:
    waits = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["spec"]["terminationGracePeriodSeconds"] >= waits + serving.DRAIN_SECONDS + 5
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["gateway"]
    assert int(compose["stop_grace_period"].removesuffix("s")) >= serving.DRAIN_SECONDS + 5


def _read_only_root(folder: Path) -> list[str]:
    """Return the beginning of a command that runs on a file system that it cannot write."""
    bwrap = shutil.which("bwrap")
    command = [str(bwrap), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent"]
    if bwrap is None or subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("bwrap is needed for a read-only file system, and is not here or may not make one")
    assert subprocess.run([*command, "touch", str(folder / "x")], check=False, capture_output=True).returncode
    return command


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code


@pytest.mark.slow
def test_the_gateway_of_the_manifests_serves_from_a_read_only_file_system(tmp_path: Path, database: Database) -> None:
    arguments = [word.replace("/etc/toolwire", str(tmp_path)) for word in CONTAINER["args"]]
    arguments[-1] = "127.0.0.1:0"
    for folder in ("settings", "keys"):
        (tmp_path / folder).mkdir()
    (tmp_path / "settings" / "toolwire.toml").write_text(SETTINGS.replace("/etc/toolwire", str(tmp_path)))
    for name in of_kind("Secret", "toolwire-keys")["stringData"]:
        (tmp_path / "keys" / name).write_text("sk-sentinel")
    around = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "TOOLWIRE_DATABASE": database.url}
    command = [*_read_only_root(tmp_path), sys.executable, "-m", "toolwire", *arguments]
    process = subprocess.Popen(command, env=around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("toolwire serves http://"), process.communicate(timeout=30)
        url = line.split()[-1]
        for kind in ("startup", "liveness", "readiness"):
            assert _status(url + CONTAINER[f"{kind}Probe"]["httpGet"]["path"]) == 200
        assert _status(f"{url}/v1/models") == 401
    finally:
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert time.monotonic() - began < POD["spec"]["terminationGracePeriodSeconds"]
