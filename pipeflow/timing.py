"""The clocks of the library, in one place: a test puts others here, so that no result depends on how busy a machine is."""

import time

wall = time.perf_counter  # seconds, counted from any moment
processor = time.thread_time  # seconds that the calling thread has been on a processor
stamp = time.monotonic_ns  # nanoseconds, the same for all processes of the machine
