// Tap tables of resizes, made on the device from the used regions: for each output of an axis its first input pixel and its
// weights. Positions and weights are float64 and summed in the order of the CPU; products and sums are rounded one by one.
// instances: taps
#include "elements.cuh"

struct TapsRow {
  int* starts;      // one for each output
  float* weights;   // `taps` for each output
  double low, high; // the region; if high is below low, it is mirrored
  int size;         // of the input along the axis
  int full, first;  // extent of the whole grid, and the first output of it
  int count;        // outputs
  int taps;         // the most taps that an output needs
  int mirror;       // the outputs in reverse order
  int kind;         // the filter, as in kernels/cpu/resample.py
  int antialias;
};

enum Filter { NEAREST, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN };
const double EDGE = 1e-6, PI = 3.141592653589793;

// The filter at distance x from its centre, in units of its own scale.
__device__ double filter_weight(int kind, double x) {
  x = fabs(x);
  if (kind == CUBIC) {
    if (x < 1) return twice_rounded(twice_rounded(1.5, x, -2.5) * x, x, 1.0);
    return x < 2 ? twice_rounded(twice_rounded(twice_rounded(-0.5, x, 2.5), x, -4.0), x, 2.0) : 0.0;
  }
  if (kind == LANCZOS3) {
    if (x < 1e-8) return 1.0;
    const double angle = PI * x;
    return x < 3 ? 3 * sin(angle) * sin(angle / 3) / (angle * angle) : 0.0;
  }
  if (kind == GAUSSIAN) return x < 1 + EDGE ? exp(-4 * x * x) : 0.0;
  return x < 1 ? 1 - x : 0.0;
}

__global__ void taps(const TapsRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const TapsRow& row = rows[place.row];
  const int number = place.block * blockDim.x + threadIdx.x;
  if (number >= row.count) return;
  const int target = row.mirror ? row.count - 1 - number : number;
  float* weights = row.weights + (long long)target * row.taps;
  const double scale = (row.high - row.low) / row.full;
  if (row.kind == NEAREST) {
    // The steps are added up in float32, as on the CPU: if a place is at the edge of two pixels, the rounding of the sum decides.
    const float step = (float)scale;
    float at = (float)twice_rounded(row.first + 0.5, scale, row.low);
    for (int i = 0; i < number; ++i) at = __fadd_rn(at, step);
    row.starts[target] = (int)min(max(floorf(at), 0.0f), (float)(row.size - 1));
    weights[0] = 1;
    return;
  }
  const double widen = row.antialias && fabs(scale) > 1 ? fabs(scale) : 1.0;
  const double edge = row.kind == GAUSSIAN ? EDGE : 0.0;
  const double radius = widen * (row.kind == LANCZOS3 ? 3.0 : row.kind == CUBIC ? 2.0 : 1.0);
  const double centre = twice_rounded(row.first + number + 0.5, scale, row.low) - 0.5;
  const int begin = (int)floor(centre - radius - edge) + 1, end = (int)ceil(centre + radius + edge);
  const int start = min(max(begin, 0), row.size - row.taps), last = row.size - 1;
  double total = 0;
  for (int p = begin; p < end; ++p) total += filter_weight(row.kind, (p - centre) / widen);
  row.starts[target] = start;
  for (int k = 0; k < row.taps; ++k) {
    // Weights of pixels beyond the border are added to the border pixel's.
    const int pixel = start + k;
    const int from = pixel == 0 ? begin : max(pixel, begin), to = pixel == last ? end : min(pixel + 1, end);
    double sum = 0;
    for (int p = from; p < to; ++p) sum += filter_weight(row.kind, (p - centre) / widen);
    weights[k] = (float)(sum / total);
  }
}
