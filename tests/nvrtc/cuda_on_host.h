// Runs CUDA C++ kernels on the CPU under plain g++, one block after another. Test-only.
//
// A kernel without __syncthreads() runs its threads in a loop. One with it runs them as fibers that take turns at every
// barrier. There are no warps: __shfl and cooperative groups do not compile here, on purpose.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 { unsigned x = 1, y = 1, z = 1; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
static dim3 gridDim, blockDim, blockIdx, threadIdx;
using std::max;
using std::min;

// float16 as g++ knows it; the conversions round to nearest even as the device's do.
typedef _Float16 __half;
static inline float __half2float(__half x) { return (float)x; }
static inline __half __float2half_rn(float x) { return (__half)x; }
static inline __half __float2half(float x) { return (__half)x; }
static inline __half __double2half(double x) { return (__half)x; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fmul_rn(float a, float b) { volatile float r = a * b; return r; }
static inline float __fadd_rn(float a, float b) { volatile float r = a + b; return r; }
static inline double __dmul_rn(double a, double b) { volatile double r = a * b; return r; }
static inline double __dadd_rn(double a, double b) { volatile double r = a + b; return r; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline int __float2int_rz(float x) {
  if (x != x) return 0;
  return x >= 2147483648.0f ? INT32_MAX : x <= -2147483648.0f ? INT32_MIN : (int)x;
}
static inline unsigned __float2uint_rz(float x) {
  if (!(x > 0)) return 0;
  return x >= 4294967296.0f ? UINT32_MAX : (unsigned)x;
}
static inline int __float2int_rn(float x) { return (int)rintf(x); }
template <class T> static inline T __ldg(const T* p) { return *p; }
static inline double __longlong_as_double(long long x) { double r; memcpy(&r, &x, 8); return r; }
static inline float __int_as_float(int x) { float r; memcpy(&r, &x, 4); return r; }
static inline int __float_as_int(float x) { int r; memcpy(&r, &x, 4); return r; }
static inline float __uint_as_float(unsigned x) { float r; memcpy(&r, &x, 4); return r; }
static inline unsigned __float_as_uint(float x) { unsigned r; memcpy(&r, &x, 4); return r; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
  return (unsigned)((((unsigned long long)high << 32) | low) >> (bits & 31));
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned order) {
  const unsigned long long bytes = ((unsigned long long)high << 32) | low;
  unsigned result = 0;
  for (int k = 0; k < 4; ++k) result |= (unsigned)(bytes >> (8 * (order >> (4 * k) & 7)) & 255) << (8 * k);
  return result;
}
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
template <class T> static inline T atomicMin(T* at, T value) { T old = *at; if (value < old) *at = value; return old; }
template <class T> static inline T atomicMax(T* at, T value) { T old = *at; if (value > old) *at = value; return old; }
template <class T> static inline T atomicAdd(T* at, T value) { T old = *at; *at += value; return old; }

namespace on_host {
// A fiber for every thread of a block. It outlives the block: at the end of a kernel it waits to run the next one.
struct Fiber {
  ucontext_t context;
  jmp_buf place;
  bool started = false;
  std::vector<char> stack = std::vector<char>(64 * 1024);
};
static std::vector<Fiber*> fibers;
static std::vector<char> finished;
static ucontext_t home;
static jmp_buf home_place;
static size_t running;
static const std::function<void()>* body;

static void set_thread(size_t t) {
  threadIdx.x = t % blockDim.x;
  threadIdx.y = t / blockDim.x % blockDim.y;
  threadIdx.z = t / (blockDim.x * blockDim.y);
}

// Sanitizers follow swapcontext only; otherwise jumps do, which ask nothing of the operating system.
static void leave() {
#ifdef __SANITIZE_ADDRESS__
  swapcontext(&fibers[running]->context, &home);
#else
  if (!_setjmp(fibers[running]->place)) _longjmp(home_place, 1);
#endif
}

static void resume(size_t t) {
  running = t;
  set_thread(t);
  Fiber& fiber = *fibers[t];
#ifdef __SANITIZE_ADDRESS__
  swapcontext(&home, &fiber.context);
#else
  if (_setjmp(home_place)) return;
  if (fiber.started) _longjmp(fiber.place, 1);
  fiber.started = true;
  setcontext(&fiber.context);
#endif
}

static void enter() {
  for (;;) {
    (*body)();
    finished[running] = 1;
    leave();
  }
}

static void launch(unsigned grid, unsigned threads, bool barriers, const std::function<void()>& kernel) {
  gridDim = {grid, 1, 1};
  blockDim = {threads, 1, 1};
  body = &kernel;
  while (barriers && fibers.size() < threads) {
    Fiber* fiber = new Fiber;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.data();
    fiber->context.uc_stack.ss_size = fiber->stack.size();
    makecontext(&fiber->context, enter, 0);
    fibers.push_back(fiber);
  }
  for (unsigned b = 0; b < grid; ++b) {
    blockIdx = {b, 0, 0};
    if (!barriers) {
      for (size_t t = 0; t < threads; ++t) { set_thread(t); kernel(); }
      continue;
    }
    finished.assign(threads, 0);
    for (bool any = true; any;) {
      any = false;
      for (size_t t = 0; t < threads; ++t)
        if (!finished[t]) { any = true; resume(t); }
    }
  }
}
}  // namespace on_host

// The accesses to shared memory that a kernel names with NOTE_SHARED, for a test of banks: block, thread, address and size.
struct SharedAccess { unsigned block, thread; uint64_t address, size; };
static std::vector<SharedAccess> shared_accesses;
static bool shared_noted;
template <class T> static inline void note_shared(const T* at) {
  if (shared_noted) shared_accesses.push_back({blockIdx.x, threadIdx.x, (uint64_t)at, sizeof(T)});
}
extern "C" void note_shared_accesses(int on) {
  shared_noted = on;
  shared_accesses.clear();
}
extern "C" const SharedAccess* noted_shared_accesses(size_t* count) {
  *count = shared_accesses.size();
  return shared_accesses.data();
}
#define NOTE_SHARED(pointer) note_shared(pointer)

static inline void __syncthreads() {
  const size_t me = on_host::running;
  on_host::leave();
  on_host::running = me;
  on_host::set_thread(me);
}
