"""Every instance that a file names is launched: no kernel is compiled without a use, and none is without a test."""

import pytest

from pipeflow.kernels import gpu


@pytest.mark.timeout(3600)
def test_every_listed_instance_was_launched(sanitized):
    """Each instance in pipeflow.kernels.gpu was launched by a host test of this run."""
    missing = [name for name in gpu.instances() if name not in sanitized.launched]
    assert not missing, f"named in its file and launched by no test here: {', '.join(missing)}"


def test_every_kernel_file_names_its_instances():
    """No .cu file is without a line of instances, and no instance is named twice."""
    assert all(gpu.instances_of(file) for file in gpu.files())
    assert len(set(gpu.instances())) == len(gpu.instances())
