// CUDA's built-in vector types, aligned as CUDA aligns them. Global names, as
// in CUDA.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_VECTOR_TYPES_H_
#define RECURVE_KERNELS_CUDA_EMULATION_VECTOR_TYPES_H_

#define RECURVE_VECTOR_2(name, type, alignment) \
  struct alignas(alignment) name {              \
    type x, y;                                  \
  };                                            \
  inline constexpr name make_##name(type x, type y) { return {x, y}; }
#define RECURVE_VECTOR_4(name, type, alignment)                       \
  struct alignas(alignment) name {                                    \
    type x, y, z, w;                                                  \
  };                                                                  \
  inline constexpr name make_##name(type x, type y, type z, type w) { \
    return {x, y, z, w};                                              \
  }

RECURVE_VECTOR_2(char2, signed char, 2)
RECURVE_VECTOR_4(char4, signed char, 4)
RECURVE_VECTOR_2(uchar2, unsigned char, 2)
RECURVE_VECTOR_4(uchar4, unsigned char, 4)
RECURVE_VECTOR_2(short2, short, 4)
RECURVE_VECTOR_4(short4, short, 8)
RECURVE_VECTOR_2(ushort2, unsigned short, 4)
RECURVE_VECTOR_4(ushort4, unsigned short, 8)
RECURVE_VECTOR_2(int2, int, 8)
RECURVE_VECTOR_4(int4, int, 16)
RECURVE_VECTOR_2(uint2, unsigned, 8)
RECURVE_VECTOR_4(uint4, unsigned, 16)
RECURVE_VECTOR_2(float2, float, 8)
RECURVE_VECTOR_4(float4, float, 16)
RECURVE_VECTOR_2(double2, double, 16)
RECURVE_VECTOR_2(longlong2, long long, 16)
RECURVE_VECTOR_2(ulonglong2, unsigned long long, 16)

#undef RECURVE_VECTOR_2
#undef RECURVE_VECTOR_4

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
};

#endif  // RECURVE_KERNELS_CUDA_EMULATION_VECTOR_TYPES_H_
