#include <cmath>

#include "check.h"
#include "epilogue.h"
#include "maths.h"

namespace check {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Distance from the true value in units of the last place of float32 (subnormal spacing below 2^-126).
double error_in_ulp(float got, double truth) {
  if (std::fabs(truth) > 3.4028235677973366e38) return std::isinf(got) ? 0.0 : 1e9;
  const int exponent = truth == 0.0 ? -149 : std::max(std::ilogb(truth) - 23, -149);
  return std::fabs(static_cast<double>(got) - truth) / std::ldexp(1.0, exponent);
}

struct Function {
  const char* name;
  float (*ours)(float);
  double (*truth)(double);
};

const Function kFunctions[] = {
    {"exp", [](float x) { return refrt::exponential(x); }, [](double x) { return std::exp(x); }},
    {"tanh", [](float x) { return refrt::hyperbolic_tangent(x); }, [](double x) { return std::tanh(x); }},
    {"sigmoid", [](float x) { return refrt::sigmoid(x); }, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
};

// Every 4099th float, so every exponent and both signs.
void check_function(Report& report, const Function& f, std::vector<float>& results) {
  double worst = 0.0;
  float at = 0.0f;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 4099) {
    const float x = from_bits(static_cast<uint32_t>(bits));
    const float got = f.ours(x);
    results.push_back(got);
    if (x != x) {
      report.holds(got != got, std::string(f.name) + " of NaN is a number");
      continue;
    }
    const double error = error_in_ulp(got, f.truth(static_cast<double>(x)));
    if (error > worst) worst = error, at = x;
  }
  char text[120];
  std::snprintf(text, sizeof text, "%s is %.3f ULP off at %a, more than 0.51", f.name, worst, static_cast<double>(at));
  report.holds(worst <= 0.51, text);
}

void exact(Report& report, const char* what, float got, float want) {
  char text[120];
  std::snprintf(text, sizeof text, "%s is %a, not %a", what, static_cast<double>(got), static_cast<double>(want));
  report.holds(bits_of(got) == bits_of(want), text);
}

}  // namespace

void maths(Report& report) {
  std::vector<float> results;
  for (const Function& f : kFunctions) check_function(report, f, results);
  report.equal("results of exp, tanh and sigmoid", results, results);  // into the digest
  const float nan = std::numeric_limits<float>::quiet_NaN();
  exact(report, "exp(0)", refrt::exponential(0.0f), 1.0f);
  exact(report, "exp(-inf)", refrt::exponential(-kInf), 0.0f);
  exact(report, "exp(inf)", refrt::exponential(kInf), kInf);
  exact(report, "tanh(-0)", refrt::hyperbolic_tangent(-0.0f), -0.0f);
  exact(report, "tanh(-inf)", refrt::hyperbolic_tangent(-kInf), -1.0f);
  exact(report, "tanh of the least subnormal", refrt::hyperbolic_tangent(1e-45f), 1e-45f);
  exact(report, "sigmoid(0)", refrt::sigmoid(0.0f), 0.5f);
  exact(report, "sigmoid(-inf)", refrt::sigmoid(-kInf), 0.0f);
  exact(report, "sigmoid(inf)", refrt::sigmoid(kInf), 1.0f);
  exact(report, "relu(NaN)", refrt::relu(nan), nan);
  exact(report, "relu(-1)", refrt::relu(-1.0f), 0.0f);
  exact(report, "hard sigmoid of NaN", refrt::hard_sigmoid(nan, 0.2f, 0.5f), nan);
  exact(report, "hard sigmoid of -inf", refrt::hard_sigmoid(-kInf, 0.2f, 0.5f), 0.0f);
  exact(report, "hard swish of 4", refrt::hard_swish(4.0f), 4.0f);
  exact(report, "hard swish of -4", refrt::hard_swish(-4.0f), -0.0f);
}

}  // namespace check
