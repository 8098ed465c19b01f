// NVRTC has no <math.h>; the functions themselves are built in. This adds the macros.
#pragma once
#define INFINITY (__int_as_float(0x7f800000))
#define NAN (__int_as_float(0x7fffffff))
#define HUGE_VALF INFINITY
#define HUGE_VAL (__longlong_as_double(0x7ff0000000000000LL))
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_1_PI 0.31830988618379067154
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
