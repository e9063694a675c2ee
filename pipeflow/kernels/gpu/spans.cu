// Squares, squared distances from means, and extremes of bytes and floats over one stretch of memory for each result, or over
// pixels of three channels. Each operation has an instance. The results are equal to those of reduce_span in reduce.cu, which is
// for all other types.
//
// The last number is one of enum Reduction: 1 SQUARES, 2 DISTANCES, 3 SMALLEST, 4 LARGEST.
// instances: span<unsigned char|float, 1|3, 1|2|3|4>
#include "reductions.cuh"

// The types in which a thread keeps the result of its part of a chunk, and in which a block stores it: the one that finish reads.
template <class In, int OPERATION> struct Kept { typedef double own; typedef double partial; };
template <> struct Kept<byte, SQUARES> { typedef int own; typedef word64 partial; };
template <> struct Kept<byte, SMALLEST> { typedef int own; typedef word64 partial; };
template <> struct Kept<byte, LARGEST> { typedef int own; typedef word64 partial; };
template <> struct Kept<float, SMALLEST> { typedef float own; typedef double partial; };
template <> struct Kept<float, LARGEST> { typedef float own; typedef double partial; };

template <class In, int INNER, int OPERATION>
__global__ void __launch_bounds__(THREADS, 4) span(const ReduceRow* __restrict__ rows, const int* __restrict__ first, int count) {
  typedef typename Kept<In, OPERATION>::own Own;
  typedef typename Kept<In, OPERATION>::partial Partial;
  const bool extreme = OPERATION >= SMALLEST;
  __shared__ Partial shared[THREADS];
  const Place place = place_of_block(first, count);
  const ReduceRow& row = rows[place.row];
  const long long chunks = (row.count + row.chunk - 1) / row.chunk;
  const long long chunk = place.block % chunks, outer = place.block / chunks;
  const In* __restrict__ input = global((const In*)row.input + offset_in(row.kept, row.kept_ndim, outer));
  const long long begin = chunk * row.chunk * INNER, end = min(row.count, (chunk + 1) * row.chunk) * INNER;
  Own total[INNER], mean[INNER];
#pragma unroll
  for (int c = 0; c < INNER; ++c) {
    // an extreme begins with a value of its channel, which does not change the result
    total[c] = extreme ? (Own)input[begin + c] : (Own)0;
    mean[c] = OPERATION == DISTANCES ? (Own)mean_of<double>(row, outer * INNER + c) : (Own)0;
  }
  over_span<In, INNER>(input, begin, end,
                       [&](int c, In x) { total[c] = joined(OPERATION, total[c], term(OPERATION, (Own)x, mean[c])); });
  Partial* partials = global((Partial*)row.partials);
#pragma unroll
  for (int c = 0; c < INNER; ++c) {
    const Partial found = over_lanes<Partial>(OPERATION, (Partial)total[c], 1, THREADS, shared);
    if (threadIdx.x == 0) partials[chunk * row.results + outer * INNER + c] = found;
    __syncthreads();
  }
}
