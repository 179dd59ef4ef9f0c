#include "check.h"
#include "lstm.h"
#include "matmul.h"
#include "plain.h"

namespace check {

namespace {

std::string sizes(const char* what, std::initializer_list<size_t> numbers) {
  std::string text = what;
  for (const size_t n : numbers) text += " " + std::to_string(n);
  return text;
}

void check_matmul(Report& report, size_t m, size_t n, size_t k, Values values, size_t workers) {
  Random random(m * 10007 + n * 101 + k);
  const std::vector<float> a = numbers(random, m * k, values), b = numbers(random, k * n, values);
  const std::vector<float> shift = numbers(random, n, values);
  refrt::MatmulShape shape = refrt::dense_matmul(m, n, k);
  std::vector<float> packed(refrt::packed_b_floats(shape)), workspace(refrt::packed_a_floats(shape));
  std::vector<float> out(m * n), raw(m * n), want(m * n);
  refrt::Epilogue epilogue;
  epilogue.raw_tap = raw.data();
  epilogue.stages.resize(2);
  epilogue.stages[0].kind = refrt::StageKind::bias;
  epilogue.stages[0].shift = shift.data();
  const refrt::Workers pool = backwards_workers(&workers);
  refrt::pack_b(shape, b.data(), packed.data(), pool);
  refrt::matmul(shape, a.data(), packed.data(), out.data(), &epilogue, 0, workspace.data(), pool);
  refrt::plain::matmul(m, n, k, a.data(), b.data(), want.data());
  report.equal(sizes("matmul: raw result", {m, n, k, workers}), raw, want);
  for (size_t i = 0; i < want.size(); ++i) want[i] = refrt::relu(want[i] + shift[i % n]);
  report.equal(sizes("matmul: output", {m, n, k, workers}), out, want);
}

// Outputs and final states side by side.
std::vector<float> run_lstm(const refrt::LstmGeometry& g, const std::vector<float>* parts, bool fast, size_t workers) {
  const size_t state = g.directions * g.batch * g.hidden, all = g.steps * state;
  std::vector<float> result(all + 2 * state);
  const refrt::LstmOutputs out{result.data(), result.data() + all, result.data() + all + state};
  const auto pointer = [&](size_t i) { return parts[i].empty() ? nullptr : parts[i].data(); };
  const refrt::LstmState initial{pointer(4), pointer(5)};
  if (fast) {
    refrt::Lstm lstm(g);
    lstm.pack(parts[1].data(), parts[2].data());
    std::vector<float> workspace(lstm.workspace_floats());
    lstm.run(pointer(3), initial, parts[0].data(), out, workspace.data(), backwards_workers(&workers));
  } else {
    refrt::plain::lstm(g, {parts[1].data(), parts[2].data(), pointer(3)}, initial, parts[0].data(), out);
  }
  return result;
}

void check_lstm(Report& report, const refrt::LstmGeometry& g, Values values, bool optional) {
  Random random(g.steps * 31 + g.hidden);
  const size_t gates = 4 * g.hidden, state = optional ? g.directions * g.batch * g.hidden : 0;
  const std::vector<float> parts[] = {
      numbers(random, g.steps * g.batch * g.input, values),
      numbers(random, g.directions * gates * g.input, Values::ordinary),
      numbers(random, g.directions * gates * g.hidden, values),
      numbers(random, optional ? g.directions * 2 * gates : 0, values),
      numbers(random, state, values),
      numbers(random, state, values),
  };
  const std::string name =
      sizes("lstm steps, batch, input, hidden, directions", {g.steps, g.batch, g.input, g.hidden, g.directions});
  const std::vector<float> want = run_lstm(g, parts, false, 1);
  report.equal(name, run_lstm(g, parts, true, 1), want);
  report.equal(name + ", three workers", run_lstm(g, parts, true, 3), want);
}

}  // namespace

void matmul(Report& report) {
  const size_t odd[] = {1, 2, 3, 5, 7, 17, 124, 127, 128};
  Random random(7);
  for (const Values values : {Values::ordinary, Values::tiny, Values::awkward}) {
    for (int i = 0; i < 24; ++i) {
      const size_t m = odd[random.below(9)], n = odd[random.below(9)], k = odd[random.below(9)];
      check_matmul(report, m, n, k, values, 1 + random.below(3));
    }
    check_matmul(report, 1, 4, 512, values, 1);
    check_matmul(report, 3, 5, 0, values, 1);
    check_matmul(report, 0, 5, 4, values, 2);
  }
}

void lstm(Report& report) {
  for (const Values values : {Values::ordinary, Values::tiny, Values::awkward}) {
    check_lstm(report, {7, 1, 24, 32, 1, false}, values, true);
    check_lstm(report, {5, 3, 7, 5, 1, true}, values, true);
    check_lstm(report, {4, 2, 3, 17, 2, false}, values, true);
    check_lstm(report, {3, 1, 1, 1, 1, false}, values, false);
    check_lstm(report, {0, 2, 3, 4, 1, false}, values, true);
  }
}

}  // namespace check
