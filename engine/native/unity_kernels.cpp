// The kernels and the operators that call them, as one translation unit.
#include "kernels/conv.cpp"
#include "kernels/depthwise.cpp"
#include "kernels/lstm.cpp"
#include "kernels/matmul.cpp"
#include "ops/conv.cpp"
#include "ops/lstm.cpp"
#include "ops/matmul.cpp"
