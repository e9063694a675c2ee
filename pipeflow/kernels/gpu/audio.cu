// Sound: preemphasis, frames for the Fourier transform, powers of spectra, weighted bands, decibels, resampling, silence.
// Signals are float; other types are cast first, unless a comment says something else.
// instances: preemphasis; cut_frames; power_of; weigh; decibels; resample_sound; nonsilent
#include "elements.cuh"

const int THREADS = 256;
const int TILE = 32;

struct PreemphasisRow {
  const void* input;
  void* output;
  long long total, inner;  // inner: number of values at one time
  float coefficient;
  int border, input_type, output_type;
};

enum Border { CLAMPED, ZERO, REFLECTED };

__global__ void preemphasis(const PreemphasisRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PreemphasisRow row = rows[place.row];
  over_eights(place.block, row.total, [&](long long i) {
    float v[EIGHT], before[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) {
      const long long at = i + k;
      if (k && row.inner == 1) {
        before[k] = v[k - 1];
      } else if (at >= row.total) {
        before[k] = 0;
      } else if (at >= row.inner) {
        before[k] = load_one<float>(row.input, row.input_type, at - row.inner);
      } else {
        const bool second = row.border == REFLECTED && row.total > row.inner;
        before[k] = row.border == ZERO ? 0 : load_one<float>(row.input, row.input_type, second ? at + row.inner : at);
      }
    }
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) v[k] = __fadd_rn(v[k], -__fmul_rn(row.coefficient, before[k]));
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}

struct FrameRow {
  const float* input;
  float* output;  // frames by `size`
  const float* window;
  long long length, total, begin;  // begin: the place where the first frame starts
  int size, width, step, reflects;
};

__device__ __forceinline__ long long reflected(long long index, long long length) {
  if (length == 1) return 0;
  const long long period = 2 * (length - 1);
  index %= period;
  if (index < 0) index += period;
  return index < length ? index : period - index;
}

// Cuts windowed frames out of a signal, with zeros up to the size of the transform.
__global__ void cut_frames(const FrameRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const FrameRow row = rows[place.row];
  over_eights(place.block, row.total, [&](long long begin) {
    long long frame = begin / row.size;
    int place_in = (int)(begin - frame * row.size);
    for (long long i = begin; i < min(begin + EIGHT, row.total); ++i) {
      float value = 0;
      if (place_in < row.width) {
        long long at = row.begin + frame * row.step + place_in;
        const bool outside = at < 0 || at >= row.length;
        if (outside && row.reflects) at = reflected(at, row.length);
        if (!outside || row.reflects) value = row.input[at] * row.window[place_in];
      }
      row.output[i] = value;
      if (++place_in == row.size) {
        place_in = 0;
        ++frame;
      }
    }
  });
}

struct PowerRow {
  const float* input;  // frames by bins, complex
  float* output;
  long long frames, bins;
  int magnitude, time_major;
};

// Squares of the absolute values (or the absolute values), with frequencies first or times first; a block transposes one tile.
__global__ void power_of(const PowerRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ float tile[TILE][TILE + 1];
  const Place place = place_of_block(first, count);
  const PowerRow row = rows[place.row];
  const long long across = (row.bins + TILE - 1) / TILE;
  const long long bin = place.block % across * TILE, frame = place.block / across * TILE;
  const int column = (int)threadIdx.x % TILE;
  for (int line = (int)threadIdx.x / TILE; line < TILE; line += THREADS / TILE) {
    if (frame + line >= row.frames || bin + column >= row.bins) continue;
    const long long at = ((frame + line) * row.bins + bin + column) * 2;
    const float real = row.input[at], imaginary = row.input[at + 1];
    float power = __fmaf_rn(real, real, imaginary * imaginary);
    if (row.magnitude) power = sqrtf(power);
    tile[line][column] = power;
    if (row.time_major) row.output[(frame + line) * row.bins + bin + column] = power;
  }
  if (row.time_major) return;
  __syncthreads();
  for (int line = (int)threadIdx.x / TILE; line < TILE; line += THREADS / TILE)
    if (bin + line < row.bins && frame + column < row.frames)
      row.output[(bin + line) * row.frames + frame + column] = tile[column][line];
}

struct WeighRow {
  const float* input;  // outer by size by inner
  float* output;       // outer by bands by inner
  const float* weights;
  const int* bands;  // for each band: its first value, the number of values, and the start of its weights
  long long total, size, inner, band_count;
};

// Every value of the result is a weighted sum along one axis.
__global__ void weigh(const WeighRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const WeighRow row = rows[place.row];
  const long long i = (long long)place.block * THREADS + threadIdx.x;
  if (i >= row.total) return;
  const long long outer = i / (row.inner * row.band_count), rest = i - outer * row.inner * row.band_count;
  const long long band = rest / row.inner, inside = rest - band * row.inner;
  const int begin = row.bands[3 * band], taps = row.bands[3 * band + 1];
  const float* weights = row.weights + row.bands[3 * band + 2];
  const float* values = row.input + (outer * row.size + begin) * row.inner + inside;
  float sum = 0;
  for (int k = 0; k < taps; ++k) sum = __fmaf_rn(values[k * row.inner], weights[k], sum);
  row.output[i] = sum;
}

struct DecibelRow {
  const void* input;
  float* output;
  const float* reference;
  long long total;
  float factor, cutoff;
  int input_type;
};

__global__ void decibels(const DecibelRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const DecibelRow row = rows[place.row];
  const float level = *row.reference;
  over_eights(place.block, row.total, [&](long long i) {
    float v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) {
      const float ratio = v[k] / level;
      // written so that NaN and numbers that are not positive become the cutoff
      const bool audible = ratio >= 1.1754943508222875e-38f;
      const float value = row.factor * log2f(audible ? ratio : 1.0f);
      v[k] = audible && value > row.cutoff ? value : row.cutoff;
    }
    store_eight<true>(row.output, FLOAT32, i, row.total, v);
  });
}

struct ResampleRow {
  const float* input;
  float* output;
  const float* table;  // phases by taps, `row_length` apart
  double scale;
  long long length, total, numerator, denominator;  // numerator 0: two phases are blended
  int channels, taps, row_length, phases;
};

__global__ void resample_sound(const ResampleRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const ResampleRow row = rows[place.row];
  const long long at = (long long)place.block * THREADS + threadIdx.x;
  if (at >= row.total) return;
  const long long i = at / row.channels, channel = at - i * row.channels;
  long long position, phase;
  float blend = 0;
  if (row.numerator) {
    position = i * row.denominator / row.numerator;
    phase = i * row.denominator - position * row.numerator;
  } else {
    const double time = (double)i / row.scale;
    position = (long long)time;
    const double fraction = (time - (double)position) * row.phases;
    phase = (long long)fraction;
    blend = (float)(fraction - (double)phase);
  }
  const long long begin = position - (row.taps / 2 - 1);
  const float* low = row.table + phase * row.row_length;
  const float* high = row.numerator ? low : low + row.row_length;
  const float* input = row.input + channel;
  float sum = 0;
  const int from = (int)max(0LL, -begin), to = (int)min((long long)row.taps, row.length - begin);
  for (int k = from; k < to; ++k) {
    const float weight = __fmaf_rn(high[k] - low[k], blend, low[k]);
    sum = __fmaf_rn(input[(begin + k) * row.channels], weight, sum);
  }
  row.output[at] = sum;
}

struct SilenceRow {
  const void* input;
  double* sums;  // sums of squares up to each value
  int* begin;
  int* length;
  long long total;
  double reference, fraction;  // the threshold of sound; reference 0: relative to the largest power
  int window, input_type;
};

__device__ __forceinline__ double power_at(const SilenceRow& row, long long i) {
  const double before = i < row.window ? 0.0 : row.sums[i - row.window];
  return (row.sums[i] - before) * (1.0 / row.window);
}

// One block for each signal: running sums of squares, the largest power of a window, the first and the last window above the
// threshold.
__global__ void nonsilent(const SilenceRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ double shared[THREADS];
  __shared__ long long from[THREADS], to[THREADS];
  const Place place = place_of_block(first, count);
  const SilenceRow row = rows[place.row];
  const int me = (int)threadIdx.x;
  double carried = 0;
  for (long long tile = 0; tile < row.total; tile += THREADS * EIGHT) {
    const long long i = tile + me * EIGHT;
    double v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
    v[0] *= v[0];
#pragma unroll
    for (int k = 1; k < EIGHT; ++k) v[k] = v[k] * v[k] + v[k - 1];
    shared[me] = v[EIGHT - 1];
    __syncthreads();
    for (int distance = 1; distance < THREADS; distance *= 2) {
      const double other = me >= distance ? shared[me - distance] : 0.0;
      __syncthreads();
      shared[me] += other;
      __syncthreads();
    }
    const double base = carried + (me ? shared[me - 1] : 0.0);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k)
      if (i + k < row.total) row.sums[i + k] = base + v[k];
    carried += shared[THREADS - 1];
    __syncthreads();
  }
  double largest = 0;
  for (long long i = me; i < row.total; i += THREADS) {
    const double power = power_at(row, i);
    if (power > largest) largest = power;
  }
  shared[me] = largest;
  __syncthreads();
  for (int half = THREADS / 2; half; half /= 2) {
    if (me < half && shared[me + half] > shared[me]) shared[me] = shared[me + half];
    __syncthreads();
  }
  const double threshold = (row.reference > 0 ? row.reference : shared[0]) * row.fraction;
  from[me] = row.total;
  to[me] = -1;
  for (long long i = me; i < row.total; i += THREADS)
    if (power_at(row, i) >= threshold) {
      from[me] = min(from[me], i);
      to[me] = i;
    }
  __syncthreads();
  for (int half = THREADS / 2; half; half /= 2) {
    if (me < half) {
      from[me] = min(from[me], from[me + half]);
      to[me] = max(to[me], to[me + half]);
    }
    __syncthreads();
  }
  if (me) return;
  const bool none = from[0] > to[0];
  const long long begin = max(from[0] - row.window + 1, 0LL);
  *row.begin = none ? 0 : (int)begin;
  *row.length = none ? 0 : (int)(to[0] - begin + 1);
}
