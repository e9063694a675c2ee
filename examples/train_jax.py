"""Trains a linear model with JAX, its batches divided over all devices: python examples/train_jax.py

On a machine without accelerators, XLA_FLAGS=--xla_force_host_platform_device_count=4 shows it with four CPU devices.
"""

import numpy as np

from pipeflow import fn

try:
    import jax
    import jax.numpy as jnp

    from pipeflow.plugin.jax import data_iterator
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install jax") from None

devices = np.array(jax.devices())
sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(devices, ("batch",)), jax.sharding.PartitionSpec("batch"))
points = [(np.array([n % 7, n % 11], np.float32) / 10, np.float32((n % 7 - 2 * (n % 11)) / 10)) for n in range(1000)]


@data_iterator(output_map=["x", "y"], reader_name="points", sharding=sharding)
def load(shard_id=0, num_shards=1):
    """One pipeline for each device, each with its shard."""
    return fn.readers.dataset(
        dataset=points, num_outputs=2, name="points", random_shuffle=True, shard_id=shard_id, num_shards=num_shards
    )


@jax.jit
def step(weights, x, y):
    """One step of gradient descent, and the loss before it."""
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(weights)
    return weights - 0.5 * gradient, loss


def main() -> None:
    """Trains for five epochs."""
    first = None
    iterator = load(batch_size=16, num_threads=1, seed=1)
    weights = jnp.zeros(2)
    for epoch in range(5):
        for batch in iterator:
            weights, loss = step(weights, batch["x"], batch["y"])
        first = first or float(loss)
        bar = "#" * round(30 * (float(loss) / first) ** 0.5)
        print(
            f"epoch {epoch + 1} on {len(devices)} devices: loss {float(loss):.5f}, weights {np.round(weights, 3)} {bar}"
        )


if __name__ == "__main__":
    main()
