// The targets of the anchors of a detector. First, for every box, a block finds the anchor that overlaps it most; then, for
// every anchor, a thread finds its box.
// instances: best_anchors; encode_boxes
#include "elements.cuh"

const int THREADS = 256;

struct BoxesRow {
  const float* anchors;   // left, top, right, bottom
  const void* boxes;
  const void* labels;
  int* places;            // the anchor of each box
  float* targets;
  int* classes;
  float means[4], stds[4];
  float criteria;
  int anchor_count, box_count, offset, box_type, label_type;
};

struct Box { float left, top, right, bottom; };

__device__ __forceinline__ Box box_of(const void* data, int type, int i) {
  return {load_one<float>(data, type, 4LL * i), load_one<float>(data, type, 4LL * i + 1),
          load_one<float>(data, type, 4LL * i + 2), load_one<float>(data, type, 4LL * i + 3)};
}

__device__ __forceinline__ float area_of(const Box& box) { return __fmul_rn(box.right - box.left, box.bottom - box.top); }

// Intersection over union.
__device__ __forceinline__ float overlap_of(const Box& a, const Box& b) {
  const float wide = fminf(a.right, b.right) - fmaxf(a.left, b.left);
  const float tall = fminf(a.bottom, b.bottom) - fmaxf(a.top, b.top);
  const float common = wide > 0 && tall > 0 ? __fmul_rn(wide, tall) : 0.0f;
  return common > 0 ? common / __fadd_rn(__fadd_rn(area_of(a), area_of(b)), -common) : 0.0f;
}

// Among equal anchors the last one is taken.
__global__ void best_anchors(const BoxesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ float most[THREADS];
  __shared__ int where[THREADS];
  const Place place = place_of_block(first, count);
  const BoxesRow& row = rows[place.row];
  const Box box = box_of(row.boxes, row.box_type, place.block);
  const int me = (int)threadIdx.x;
  float best = -1;
  int at = -1;
  for (int i = me; i < row.anchor_count; i += THREADS) {
    const float value = overlap_of(box, ((const Box*)row.anchors)[i]);
    if (value >= best) { best = value; at = i; }
  }
  most[me] = best;
  where[me] = at;
  __syncthreads();
  for (int step = THREADS / 2; step; step /= 2) {
    if (me < step) {
      const float other = most[me + step];
      if (other > most[me] || (other == most[me] && where[me + step] > where[me])) {
        most[me] = other;
        where[me] = where[me + step];
      }
    }
    __syncthreads();
  }
  if (me == 0) row.places[place.block] = where[0];
}

__global__ void encode_boxes(const BoxesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const BoxesRow& row = rows[place.row];
  const int i = place.block * THREADS + (int)threadIdx.x;
  if (i >= row.anchor_count) return;
  const Box anchor = ((const Box*)row.anchors)[i];
  float best = -1;
  int found = -1;
  for (int b = 0; b < row.box_count; ++b) {
    const float value = overlap_of(box_of(row.boxes, row.box_type, b), anchor);
    if (value > row.criteria && value >= best) { best = value; found = b; }
  }
  for (int b = 0; b < row.box_count; ++b)
    if (row.places[b] == i) found = b;
  row.classes[i] = found < 0 ? 0 : (int)load_one<double>(row.labels, row.label_type, found);
  float* target = row.targets + 4LL * i;
  const Box box = found < 0 ? anchor : box_of(row.boxes, row.box_type, found);
  float centre[4] = {(box.left + box.right) * 0.5f, (box.top + box.bottom) * 0.5f, box.right - box.left, box.bottom - box.top};
  if (!row.offset) {
    for (int k = 0; k < 4; ++k) target[k] = centre[k];
    return;
  }
  const float extents[2] = {anchor.right - anchor.left, anchor.bottom - anchor.top};
  const float own[2] = {(anchor.left + anchor.right) * 0.5f, (anchor.top + anchor.bottom) * 0.5f};
  for (int k = 0; k < 4; ++k) {
    const float value = k < 2 ? (centre[k] - own[k]) / extents[k] : logf(centre[k] / extents[k - 2]);
    target[k] = found < 0 ? 0.0f : (value - row.means[k]) / row.stds[k];
  }
}
