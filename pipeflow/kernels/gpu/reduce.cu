// Reductions over some axes, in two steps that always add in the same order: each block reduces a chunk to a partial result,
// then one thread for each result joins the chunks. And normalisation with such results.
//
// A is the type of sums: double for floats, 64-bit integers for integers.
// instances: reduce<ACCUMULATED>; finish<ACCUMULATED>; reduce_span<ACCUMULATED, 1|3>; normalize
// instances: sum_span<unsigned char|float, 1|3, 1|2>; finish_moments
// instances: normalize_span<unsigned char|float, 1|3>
#include "reductions.cuh"

// For any axes. A block reduces a chunk of the elements of up to 256 neighbouring results, or each thread a result of few
// elements.
template <class A>
__global__ void reduce(const ReduceRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ A shared[THREADS];
  const Place place = place_of_block(first, count);
  const ReduceRow row = rows[place.row];
  if (row.one_by_one) {
    const long long result = (long long)place.block * THREADS + threadIdx.x;
    if (result >= row.results) return;
    const long long outer = result / row.inner;
    const long long base = offset_in(row.kept, row.kept_ndim, outer) + (result - outer * row.inner);
    const A mean = mean_of<A>(row, result);
    A total = neutral<A>(row.operation);
    for (long long i = 0; i < row.count; ++i) {
      const long long at = base + offset_in(row.reduced, row.reduced_ndim, i);
      total = joined(row.operation, total, term(row.operation, load_one<A>(row.input, row.input_type, at), mean));
    }
    ((A*)row.partials)[result] = total;
    return;
  }
  const long long chunks = (row.count + row.chunk - 1) / row.chunk;
  const int width = (int)min(row.inner, (long long)THREADS), lanes = THREADS / width;
  const long long tiles = (row.inner + width - 1) / width;
  const long long chunk = place.block % chunks, tile = place.block / chunks % tiles, outer = place.block / chunks / tiles;
  const int lane = (int)threadIdx.x / width;
  const long long column = tile * width + (int)threadIdx.x % width;
  const bool active = lane < lanes && column < row.inner;
  const long long result = outer * row.inner + column;
  A total = neutral<A>(row.operation);
  if (active) {
    const long long base = offset_in(row.kept, row.kept_ndim, outer) + column;
    const A mean = mean_of<A>(row, result);
    const long long end = min(row.count, (chunk + 1) * row.chunk);
    for (long long i = chunk * row.chunk + lane; i < end; i += lanes) {
      const long long at = base + offset_in(row.reduced, row.reduced_ndim, i);
      total = joined(row.operation, total, term(row.operation, load_one<A>(row.input, row.input_type, at), mean));
    }
  }
  total = over_lanes(row.operation, total, width, lanes, shared);
  if (active && lane == 0) ((A*)row.partials)[chunk * row.results + result] = total;
}

// One stretch of memory for each result (INNER 1), or pixels of three channels (INNER 3): read eight at a time.
template <class A, int INNER>
__global__ void reduce_span(const ReduceRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ A shared[THREADS];
  const Place place = place_of_block(first, count);
  const ReduceRow row = rows[place.row];
  const long long chunks = (row.count + row.chunk - 1) / row.chunk;
  const long long chunk = place.block % chunks, outer = place.block / chunks;
  const long long base = offset_in(row.kept, row.kept_ndim, outer);
  const long long end = min(row.count, (chunk + 1) * row.chunk) * INNER;
  const char* input = (const char*)row.input;
  A total[INNER], mean[INNER];
#pragma unroll
  for (int c = 0; c < INNER; ++c) {
    total[c] = neutral<A>(row.operation);
    mean[c] = mean_of<A>(row, outer * INNER + c);
  }
  const long long step = EIGHT * INNER;
  for (long long i = chunk * row.chunk * INNER + threadIdx.x * step; i < end; i += THREADS * step) {
#pragma unroll
    for (int part = 0; part < INNER; ++part) {
      A v[EIGHT];
      const long long from = i + part * EIGHT;
      load_eight(v, input, row.input_type, base + from, base + end);
#pragma unroll
      for (int k = 0; k < EIGHT; ++k) {
        const int c = (part * EIGHT + k) % INNER;
        if (from + k < end) total[c] = joined(row.operation, total[c], term(row.operation, v[k], mean[c]));
      }
    }
  }
#pragma unroll
  for (int c = 0; c < INNER; ++c) {
    const A sum = over_lanes(row.operation, total[c], 1, THREADS, shared);
    if (threadIdx.x == 0) ((A*)row.partials)[chunk * row.results + outer * INNER + c] = sum;
    __syncthreads();
  }
}

// The types in which one thread keeps sums of bytes and of floats, over a chunk of 16384 values.
template <class In> struct Sums;
template <> struct Sums<byte> { typedef int own; typedef word64 partial; };
template <> struct Sums<float> { typedef double own; typedef double partial; };

// Sums of bytes and floats over one stretch of memory for each result, as in reduce_span, but without a branch for each element.
// MOMENTS 2: the sums of the distances from the first value and of their squares, and that value, from which finish_moments
// makes a mean and a factor. The partial results have the type `partial` for sums, double for moments: MOMENTS planes and the
// first values.
template <class In, int INNER, int MOMENTS>
__global__ void sum_span(const ReduceRow* __restrict__ rows, const int* __restrict__ first, int count) {
  typedef typename Sums<In>::own Own;
  __shared__ double shared[THREADS];
  const Place place = place_of_block(first, count);
  const ReduceRow& row = rows[place.row];
  const long long chunks = (row.count + row.chunk - 1) / row.chunk;
  const long long chunk = place.block % chunks, outer = place.block / chunks;
  const In* __restrict__ input = global((const In*)row.input) + offset_in(row.kept, row.kept_ndim, outer);
  const long long begin = chunk * row.chunk * INNER, end = min(row.count, (chunk + 1) * row.chunk) * INNER;
  Own from[INNER], sum[INNER] = {}, squares[INNER] = {};
#pragma unroll
  for (int c = 0; c < INNER; ++c) from[c] = MOMENTS == 2 ? (Own)input[c] : (Own)0;
  const auto add = [&](int c, In x) {
    const Own value = (Own)x - from[c];
    sum[c] += value;
    if (MOMENTS == 2) squares[c] += value * value;
  };
  over_span<In, INNER>(input, begin, end, add);
  const long long plane = chunks * row.results;
  double* partials = global((double*)row.partials);
#pragma unroll
  for (int c = 0; c < INNER; ++c) {
    const long long at = chunk * row.results + outer * INNER + c;
#pragma unroll
    for (int moment = 0; moment < MOMENTS; ++moment) {
      const double total = over_lanes<double>(SUM, (double)(moment ? squares[c] : sum[c]), 1, THREADS, shared);
      if (threadIdx.x == 0) {
        if (MOMENTS == 2) partials[moment * plane + at] = total;
        else global((typename Sums<In>::partial*)row.partials)[at] = (typename Sums<In>::partial)total;
      }
      __syncthreads();
    }
    if (MOMENTS == 2 && threadIdx.x == 0 && chunk == 0)
      partials[2 * plane + outer * INNER + c] = (double)from[c];
  }
}

struct MomentsRow {
  const double* partials;
  double* means;
  double* factors;
  long long results, chunks;
  double count, divisor, epsilon, scale;
};

__global__ void finish_moments(const MomentsRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const MomentsRow& row = rows[place.row];
  const long long result = (long long)place.block * THREADS + threadIdx.x, plane = row.chunks * row.results;
  if (result >= row.results) return;
  double sum = 0, squares = 0;
  for (long long chunk = 0; chunk < row.chunks; ++chunk) {
    sum += row.partials[chunk * row.results + result];
    squares += row.partials[plane + chunk * row.results + result];
  }
  const double mean = sum / row.count, all = squares - sum * mean, distances = all < 0 ? 0 : all;  // NaN stays NaN
  const double deviation = sqrt(distances / row.divisor + row.epsilon);
  row.means[result] = row.partials[2 * plane + result] + mean;
  row.factors[result] = deviation > 0 ? row.scale / deviation : 0.0;
}

struct FinishRow {
  const void* partials;
  void* output;
  long long results, chunks;
  double count, epsilon, scale;
  int operation, finish, output_type;
  int truncates;  // the fraction of means in integers is cut off
};

template <class A>
__global__ void finish(const FinishRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const FinishRow row = rows[place.row];
  const long long result = (long long)place.block * THREADS + threadIdx.x;
  if (result >= row.results) return;
  A total = neutral<A>(row.operation);
  for (long long chunk = 0; chunk < row.chunks; ++chunk)
    total = joined(row.operation, total, ((const A*)row.partials)[chunk * row.results + result]);
  if (row.finish == AS_IT_IS && !row.truncates) {
    store_one<true>(row.output, row.output_type, result, total);
    return;
  }
  double value = (double)total;
  if (row.finish != AS_IT_IS) value = value / row.count;
  if (row.finish == ROOT) value = sqrt(value);
  if (row.finish == FACTOR) {
    const double deviation = sqrt(value + row.epsilon);
    value = deviation > 0 ? row.scale / deviation : 0.0;
  }
  store_one<true>(row.output, row.output_type, result, row.truncates ? trunc(value) : value);
}

struct NormalizeRow {
  const void* input;
  void* output;
  const double* means;
  const double* factors;
  const Extent* axes;  // of the data, with neighbouring axes joined, and their strides in the means
  long long total;
  float shift;
  int ndim, input_type, output_type;
};

__global__ void normalize(const NormalizeRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const NormalizeRow row = rows[place.row];
  const Extent last = row.ndim ? row.axes[row.ndim - 1] : Extent{1, 0};
  over_eights(place.block, row.total, [&](long long i) {
    float v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
    long long outer = i / last.extent, inner = i - outer * last.extent;
    long long base = offset_in(row.axes, row.ndim - 1, outer);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) {
      if (i + k < row.total) {
        const long long at = base + inner * last.stride;
        const float mean = (float)row.means[at], factor = (float)row.factors[at];
        v[k] = __fadd_rn(__fmul_rn(__fadd_rn(v[k], -mean), factor), row.shift);
      }
      if (++inner == last.extent) {
        inner = 0;
        base = offset_in(row.axes, row.ndim - 1, ++outer);
      }
    }
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}

struct SpanRow {
  const void* input;
  void* output;
  const double* means;
  const double* factors;
  long long count;  // elements of a stretch of memory with one mean for each of INNER channels
  float shift;
};

// Bytes and floats to floats, with the means and factors of sum_span; the steps and roundings are those of normalize.
template <class In, int INNER>
__global__ void normalize_span(const SpanRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const int GROUP = 4 * INNER;
  const Place place = place_of_block(first, count);
  const SpanRow& row = rows[place.row];
  const int shares = (int)((row.count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS);
  const int outer = place.block / shares, share = place.block - outer * shares;
  const In* __restrict__ input = global((const In*)row.input) + outer * row.count;
  float* __restrict__ output = global((float*)row.output) + outer * row.count;
  float mean[INNER], factor[INNER];
#pragma unroll
  for (int c = 0; c < INNER; ++c) {
    mean[c] = (float)global(row.means)[outer * INNER + c];
    factor[c] = (float)global(row.factors)[outer * INNER + c];
  }
  const float shift = row.shift;
  const auto result = [&](int c, In x) {
    return __fadd_rn(__fmul_rn(__fadd_rn((float)x, -mean[c]), factor[c]), shift);
  };
  // A share begins after a whole number of groups, so that each group begins with channel 0.
  const long long size = BLOCK_ELEMENTS / GROUP * GROUP;
  const long long end = share + 1 == shares ? row.count : (share + 1) * size;
  const bool vectors = (((word64)input & (4 * sizeof(In) - 1)) | ((word64)output & 15)) == 0;
  for (long long i = share * size + (long long)threadIdx.x * GROUP; i < end; i += (long long)THREADS * GROUP) {
    if (vectors && i + GROUP <= end) {
      Several<In, 4> part[INNER];
#pragma unroll
      for (int k = 0; k < INNER; ++k) part[k] = ((const Several<In, 4>*)(input + i))[k];
#pragma unroll
      for (int k = 0; k < INNER; ++k) {
        float4 made;
        made.x = result((4 * k) % INNER, part[k].at[0]);
        made.y = result((4 * k + 1) % INNER, part[k].at[1]);
        made.z = result((4 * k + 2) % INNER, part[k].at[2]);
        made.w = result((4 * k + 3) % INNER, part[k].at[3]);
        ((float4*)(output + i))[k] = made;
      }
    } else {
#pragma unroll
      for (int k = 0; k < GROUP; ++k)
        if (i + k < end) output[i + k] = result(k % INNER, input[i + k]);
    }
  }
}
