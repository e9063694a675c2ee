"""Ray, for real: a local cluster of two workers on loopback, started and stopped here."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pipeflow import fn, pipeline, pipeline_def

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are many
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    import ray

    folder = tmp_path_factory.mktemp("ray")
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "adapters")])
    variables = {"PYTHONPATH": path, "PIPEFLOW_TEST_FOLDER": str(folder), "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    os.environ.update(variables)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.2",
        runtime_env={"env_vars": variables},
        log_to_driver=False,
        object_store_memory=200 * 2**20,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


def files(tmp_path, count):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(count):
        np.save(folder / f"{number:03}.npy", np.array(number))
    return str(folder)


def reading(root, function, shuffle=True):
    def define():
        number = fn.readers.numpy(file_root=root, file_filter="*.npy", random_shuffle=shuffle)
        return number, fn.python_function(number, function=function), fn.random.uniform(range=(0.0, 1.0))

    return pipeline_def(define, batch_size=4, num_threads=1, seed=7)()


def test_a_dataset_of_shards(cluster, tmp_path):
    """Two tasks give every sample once, with the random numbers that one process would have drawn."""
    import ray_functions

    from pipeflow.distributed.ray import read

    root = files(tmp_path, 30)
    dataset = read(reading(root, ray_functions.double), 2, ["number", "double", "draw"])
    rows = {int(row["number"]): row for row in dataset.take_all()}
    assert sorted(rows) == list(range(30))
    assert all(int(row["double"]) == 2 * number for number, row in rows.items())
    assert dataset.count() == 30


def test_a_killed_worker_loses_and_repeats_nothing(cluster, tmp_path):
    """A worker dies in the middle of its shard; Ray runs the task again, and every sample comes once."""
    import ray_functions

    from pipeflow.distributed.ray import read

    root = files(tmp_path, 40)
    dataset = read(reading(root, ray_functions.die_once), 4, ["number", "same", "draw"])
    numbers = sorted(int(row["number"]) for row in dataset.take_all())
    assert (Path(os.environ["PIPEFLOW_TEST_FOLDER"]) / "killed").exists()
    assert numbers == list(range(40))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_batch_is_made_again_after_an_error_of_storage(cluster, tmp_path, num_threads):
    """`retries` meets OSErrors; the batches before the failed one come once, the rest follows it."""
    import ray_functions

    from pipeflow.distributed.ray import read

    root = files(tmp_path, 30)
    for mark in Path(os.environ["PIPEFLOW_TEST_FOLDER"]).glob("failed *"):
        mark.unlink()
    options = {"num_threads": num_threads, "num_cpus": num_threads}
    pipeline = reading(root, ray_functions.fail_twice)
    rows = read(pipeline, 1, ["number", "same", "draw"], retries=2, **options).take_all()
    assert sorted(int(row["number"]) for row in rows) == list(range(30))
    for mark in Path(os.environ["PIPEFLOW_TEST_FOLDER"]).glob("failed *"):
        mark.unlink()
    with pytest.raises(Exception, match="the storage is away"):
        read(pipeline, 1, ["number", "same", "draw"], **options).take_all()


def test_map_batches_runs_a_pipeline(cluster):
    """PipelineMap feeds columns by name and passes the others through."""
    from pipeflow.distributed.ray import PipelineMap

    def define():
        return fn.external_source(name="image") * 2

    text = pipeline_def(define, batch_size=8, num_threads=1)().serialize()
    dataset = cluster.data.from_items([{"image": np.full(3, number), "label": number} for number in range(20)])
    mapped = dataset.map_batches(PipelineMap, fn_constructor_args=(text, ["twice"]), batch_size=8, concurrency=1)
    rows = {int(row["label"]): row["twice"].tolist() for row in mapped.take_all()}
    assert rows == {number: [2 * number] * 3 for number in range(20)}


def test_streaming_split_feeds_torch(cluster, tmp_path):
    """Two consumers of one dataset get tensors, together every row once."""
    import ray_functions

    from pipeflow.distributed.ray import read

    root = files(tmp_path, 24)
    dataset = read(reading(root, ray_functions.double), 2, ["number", "double", "draw"])

    @cluster.remote(num_cpus=0)
    class Trainer:
        def train(self, part):
            return [int(x) for batch in part.iter_torch_batches(batch_size=4) for x in batch["number"]]

    parts = dataset.streaming_split(2)
    trainers = [Trainer.remote() for _ in parts]
    seen = cluster.get([trainer.train.remote(part) for trainer, part in zip(trainers, parts)], timeout=60)
    assert sorted(seen[0] + seen[1]) == list(range(24))


def test_what_cannot_be_divided_is_refused(cluster):
    """No reader, wrong names, wrong shard counts and functions that cannot travel."""
    from pipeflow.distributed.ray import read

    plain = pipeline_def(lambda: fn.random.uniform(), batch_size=2, num_threads=1)()
    with pytest.raises(ValueError, match="this pipeline has none: use PipelineMap"):
        read(plain, 2, ["x"])
    with pytest.raises(ValueError, match="names 2 outputs and the pipeline has 1"):
        read(plain, 2, ["x", "y"])
    with pytest.raises(ValueError, match="num_shards must be an integer of at least 1, got 0"):
        read(plain, 0, ["x"])
    with pytest.raises(ValueError, match="retries must be an integer of at least 0, got -1"):
        read(plain, 2, ["x"], retries=-1)
    with pytest.raises(ValueError, match="num_threads must be an integer of at least 1, got 0"):
        read(plain, 2, ["x"], num_threads=0)
    function = pipeline_def(
        lambda: fn.python_function(fn.random.uniform(), function=lambda x: x), batch_size=2, num_threads=1
    )()
    with pytest.raises(TypeError, match="cannot be imported by name"):
        read(function, 2, ["x"])


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_training_job_resumes_exactly(cluster, tmp_path, shuffle):
    """Both workers fail in the middle of the second epoch and start again: the batches of shards that were never stopped."""
    import ray_functions
    from ray import train
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    root = files(tmp_path, 20)
    trainer = DataParallelTrainer(
        ray_functions.train,
        train_loop_config={"root": root, "folder": str(tmp_path), "shuffle": shuffle},
        scaling_config=train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=train.RunConfig(
            storage_path=str(tmp_path / "runs"), name="job", failure_config=train.FailureConfig(max_failures=1)
        ),
    )
    trainer.fit()
    seen = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("[01] *")}
    from pipeflow.distributed.ray import _sharded

    for rank in range(2):
        text = _sharded(ray_functions.trained_on(root, shuffle).serialize(), rank, 2)
        plain = pipeline.Pipeline.deserialize(text, functions=["ray_functions"])
        batches = [
            {name: x.as_array().tolist() for name, x in zip(("number", "double", "draw"), batch)}
            for _ in range(2)
            for batch in plain.epoch()
        ]
        assert [seen[f"{rank} {step} first"] for step in range(1, 7)] == batches[:6]
        assert [seen[f"{rank} {step} again"] for step in range(6, 9)] == batches[5:]
        assert len(batches) == 8


def test_two_nodes_share_the_work(tmp_path):
    """A cluster of two nodes with a processor each, simulated: both make blocks, every sample comes once, as on one node."""
    import ray
    import ray_functions
    from ray.cluster_utils import Cluster

    from pipeflow.distributed.ray import read

    ray.shutdown()  # of the cluster of the other tests, which come before
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=1)
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "adapters")])
        variables = {"PYTHONPATH": path, "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
        ray.init(address=nodes.address, runtime_env={"env_vars": variables}, log_to_driver=False)
        nodes.wait_for_nodes()
        ray.data.DataContext.get_current().enable_progress_bars = False
        root = files(tmp_path, 30)
        dataset = read(
            reading(root, ray_functions.where),
            4,
            ["number", "node", "draw"],
            ray_remote_args={"scheduling_strategy": "SPREAD"},
        )
        rows = dataset.take_all()
        assert sorted(int(row["number"]) for row in rows) == list(range(30))
        assert {bytes(row["node"]).decode() for row in rows} == {
            node["NodeID"] for node in ray.nodes() if node["Alive"]
        }
        one = {int(n): float(x) for n, _, x in single(reading(root, ray_functions.double))}
        assert {int(row["number"]): float(row["draw"]) for row in rows} == one
    finally:
        ray.shutdown()
        nodes.shutdown()


def single(pipe):
    """The samples of an epoch in this process."""
    return [sample for batch in pipe.epoch() for sample in zip(*(output.samples() for output in batch))]
