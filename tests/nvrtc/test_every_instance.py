"""What is listed is launched: no kernel is compiled for nobody, and none is without a test."""

from host_device import LAUNCHED

from pipeflow.kernels import gpu


def test_every_listed_instance_was_launched():
    """Each instance in pipeflow.kernels.gpu was launched by a host test of this run."""
    missing = [name for name in gpu.instances() if name not in LAUNCHED]
    assert not missing, f"listed in pipeflow/kernels/gpu/__init__.py and launched by no test here: {', '.join(missing)}"


def test_every_kernel_file_is_listed():
    """No .cu file is left out of the list, and none is listed that is not there."""
    assert sorted(path.name for path in gpu.FOLDER.glob("*.cu")) == sorted(gpu.INSTANCES)
