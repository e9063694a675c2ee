// The values of a channel spread over their range: they are counted, then each block makes the table of its channel.
#include "elements.cuh"

const int THREADS = 256, VALUES = 16384;  // values that a block works on

struct HistogramRow {
  const byte* input;    // the first value of a channel
  byte* output;
  unsigned* counts;     // 256 of them
  long long total;      // values of the channel
  int step;             // from value to value
};

__global__ void count_values(const HistogramRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ unsigned counts[256];
  const Place place = place_of_block(first, count);
  const HistogramRow& row = rows[place.row];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + threadIdx.x; i < end; i += THREADS) atomicAdd(&counts[row.input[i * row.step]], 1u);
  __syncthreads();
  if (counts[threadIdx.x]) atomicAdd(&row.counts[threadIdx.x], counts[threadIdx.x]);
}

__global__ void spread_values(const HistogramRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ unsigned below[256];
  __shared__ byte table[256];
  const Place place = place_of_block(first, count);
  const HistogramRow& row = rows[place.row];
  const int me = (int)threadIdx.x;
  below[me] = row.counts[me];
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {  // sums of all counts up to each value
    const unsigned more = me >= step ? below[me - step] : 0;
    __syncthreads();
    below[me] += more;
    __syncthreads();
  }
  int least = 0;
  while (least < 255 && below[least] == 0) ++least;
  const unsigned all = below[255], rest = all - below[least];
  const float factor = rest ? 255.0f / (float)rest : 0.0f;
  const unsigned own = me > least ? below[me] - below[least] : 0;
  table[me] = rest ? (byte)(int)rintf(__fmul_rn((float)own, factor)) : (byte)me;
  __syncthreads();
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + me; i < end; i += THREADS) row.output[i * row.step] = table[row.input[i * row.step]];
}
