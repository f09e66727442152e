"""The example files of docs/cluster.md are valid."""

import json
import subprocess

import jsonschema
import pytest
import typer
import yaml

from grader.commands.cli import command_line
from grader.sandbox.levels import landlock


def test_the_cloud_example_is_one_that_ray_reads(root):
    ray = pytest.importorskip("ray")
    schema = json.loads((root / ray.__path__[0] / "autoscaler" / "ray-schema.json").read_text())
    example = yaml.safe_load((root / "examples" / "cluster" / "aws.yaml").read_text())
    jsonschema.validate(example, schema)
    assert example["head_node_type"] in example["available_node_types"]


def test_the_kubernetes_example_has_a_head_that_grades_nothing(root):
    """Its nodes need a token, and root for the isolation."""
    example = yaml.safe_load((root / "examples" / "cluster" / "kubernetes.yaml").read_text())
    head, (workers,) = example["spec"]["headGroupSpec"], example["spec"]["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert example["spec"]["authOptions"]["mode"] == "token"
    for group in (head, workers):
        assert group["template"]["spec"]["securityContext"]["runAsUser"] == 0


def test_the_pod_with_a_gpu_has_what_the_landlock_level_needs(root):
    """No capability is missing or superfluous, and each command and option exists."""
    pod = yaml.safe_load((root / "examples" / "cluster" / "gpu_pod.yaml").read_text())
    (container,) = pod["spec"]["containers"]
    security = container["securityContext"]
    assert security["runAsUser"] == 0
    assert security["allowPrivilegeEscalation"] is False
    capabilities = {"drop": ["ALL"], "add": list(landlock.NEEDED_CAPABILITIES)}
    assert security["capabilities"] == capabilities
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    program, command, *words = container["command"]
    known = typer.main.get_command(command_line()).commands[command].params
    assert program == "grader"
    assert {w for w in words if w.startswith("--")} <= {n for p in known for n in p.opts}


def test_the_slurm_example_is_bash(root):
    subprocess.run(["bash", "-n", root / "examples" / "cluster" / "slurm.sh"], check=True)
