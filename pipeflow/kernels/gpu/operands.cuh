// Operands that are broadcast to the shape of a result.
#pragma once
#include "elements.cuh"

enum Form { WHOLE, SINGLE, PLANE, GENERAL };

struct Operand {
  const void* data;
  long long outer, inner;  // strides of a PLANE
  int type, form;
};

// Extents of the result with the strides of up to three operands, outermost first; axes that can be joined are joined.
struct Axis {
  long long extent;
  long long stride[3];
};

__device__ __noinline__ long long offset_of(long long i, int which, const Axis* axes, int ndim) {
  long long offset = 0;
  for (int axis = ndim - 1; axis >= 0; --axis) {
    const long long extent = axes[axis].extent;
    offset += i % extent * axes[axis].stride[which];
    i /= extent;
  }
  return offset;
}

// Eight elements of an operand for the elements i ... i + 7 of the result; `inner` is the extent of its last joined axis.
template <class C>
__device__ __forceinline__ void load_operand(C (&v)[EIGHT], const Operand& operand, int which, long long i,
                                             long long total, long long inner, const Axis* axes, int ndim) {
  if (operand.form == WHOLE) {
    load_eight(v, operand.data, operand.type, i, total);
  } else if (operand.form == SINGLE) {
    const C value = load_one<C>(operand.data, operand.type, 0);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) v[k] = value;
  } else if (operand.form == PLANE) {
    long long row = i / inner, column = i - row * inner;
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) {
      const long long at = row * operand.outer + column * operand.inner;
      v[k] = i + k < total ? load_one<C>(operand.data, operand.type, at) : (C)0;
      if (++column == inner) { column = 0; ++row; }
    }
  } else {
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) {
      const long long at = offset_of(i + k, which, axes, ndim);
      v[k] = i + k < total ? load_one<C>(operand.data, operand.type, at) : (C)0;
    }
  }
}
