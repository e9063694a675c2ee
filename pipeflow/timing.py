"""The clocks of the library: tests replace them here, so that no result depends on how busy the machine is."""

import time

wall = time.perf_counter  # seconds since an arbitrary moment
processor = time.thread_time  # seconds in which the calling thread has been on a processor
stamp = time.monotonic_ns  # nanoseconds, the same for all processes of the machine
process = time.process_time  # seconds in which the threads of this process have been on a processor
date = time.time_ns  # nanoseconds since 1970, for the times of files
