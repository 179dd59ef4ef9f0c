// refrt: the referee engine. `refrt run --request request.json --out DIR`, `refrt info`, `refrt --version`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "api/failure.h"
#include "api/files.h"
#include "api/request.h"
#include "api/result.h"
#include "session/session.h"

namespace refrt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kUsage[] = "usage: refrt run --request FILE --out DIR | refrt info | refrt --version";

int64_t nanoseconds(Clock::duration span) { return std::chrono::duration_cast<std::chrono::nanoseconds>(span).count(); }

// One line of progress for whoever watches.
void progress(const char* event, const char* kind, int64_t iteration) {
  std::printf("{\"event\":\"%s\",\"kind\":\"%s\",\"iteration\":%lld}\n", event, kind,
              static_cast<long long>(iteration));
  std::fflush(stdout);
}

void load_inputs(const Request& request, Session& session) {
  const Graph& graph = session.graph();
  if (request.inputs.size() != graph.inputs.size()) {
    bad_request("the request has " + std::to_string(request.inputs.size()) + " inputs, the model " +
                std::to_string(graph.inputs.size()));
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const GraphTensor& tensor = graph.tensors[static_cast<size_t>(graph.inputs[i])];
    const auto found = std::find_if(request.inputs.begin(), request.inputs.end(),
                                    [&](const TensorFile& file) { return file.name == tensor.name; });
    if (found == request.inputs.end()) bad_request("the request lacks input " + std::string(tensor.name));
    check_same(*found, tensor.view, "input " + found->name);
    const MappedFile bytes(found->path);
    if (bytes.size() != static_cast<size_t>(tensor.view.bytes())) {
      bad_request(found->path + " holds " + std::to_string(bytes.size()) + " bytes where " +
                  std::to_string(tensor.view.bytes()) + " are needed");
    }
    session.set_input(i, bytes.data(), bytes.size());
  }
}

class Run {
 public:
  Run(const Request& request, const std::string& folder, Session& session, Recorder& recorder)
      : request_(request), folder_(folder), session_(session), recorder_(recorder) {
    deadline_ = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request.limit_seconds));
  }

  Result all() {
    const auto plain = std::find(request_.passes.begin(), request_.passes.end(), PassKind::plain);
    const PassKind keep_outputs_of = plain == request_.passes.end() ? PassKind::instrumented : PassKind::plain;
    for (PassKind kind : request_.passes) {
      for (int64_t i = 0; i < request_.iterations; ++i) {
        one(kind, i);
        if (kind == keep_outputs_of && result_.outputs.empty()) save_outputs(kind);
      }
      if (kind == PassKind::instrumented) result_.layers = &recorder_.results();
    }
    result_.isolated = run_isolated(request_, folder_, session_, deadline_);
    return std::move(result_);
  }

 private:
  void one(PassKind kind, int64_t iteration) {
    progress("pass", pass_name(kind), iteration);
    PassResult pass;
    pass.kind = kind;
    pass.iteration = iteration;
    pass.outputs.resize(session_.graph().outputs.size());
    recorder_.first_iteration(iteration == 0);
    const auto start = Clock::now();
    session_.run(kind, kind == PassKind::instrumented ? &recorder_ : nullptr, deadline_);
    pass.latency_ns = nanoseconds(Clock::now() - start);
    for (size_t i = 0; i < pass.outputs.size(); ++i) pass.outputs[i] = observe(session_.output(i, kind));
    result_.passes.push_back(std::move(pass));
  }

  void save_outputs(PassKind kind) {
    std::vector<unsigned char> storage;
    result_.outputs = result_.passes.back().outputs;
    for (size_t i = 0; i < result_.outputs.size(); ++i) {
      const std::string_view bytes = canonical_bytes(session_.output(i, kind), storage);
      write_file(folder_ + "/outputs/" + numbered(i), bytes.data(), bytes.size());
    }
  }

  const Request& request_;
  const std::string& folder_;
  Session& session_;
  Recorder& recorder_;
  Clock::time_point deadline_;
  Result result_;
};

int run(const std::string& request_path, const std::string& folder) {
  make_folder(folder);
  std::remove((folder + "/result.json").c_str());
  const Request request = read_request(request_path);
  const auto start = Clock::now();
  const Graph graph = read_graph(request.model_path);
  const bool instrumented = !request.isolated.empty() || std::find(request.passes.begin(), request.passes.end(),
                                                                   PassKind::instrumented) != request.passes.end();
  Session session(graph, request.threads, instrumented);
  load_inputs(request, session);
  Recorder recorder(graph, request, folder);
  make_folder(folder + "/outputs");
  const int64_t load_ns = nanoseconds(Clock::now() - start);
  Result result = Run(request, folder, session, recorder).all();
  result.load_ns = load_ns;
  const std::string text = result_text(request, graph, result);
  if (static_cast<int64_t>(text.size()) > request.limit_result_bytes) {
    runtime_failed("the result has " + std::to_string(text.size()) + " bytes; the request allows " +
                   std::to_string(request.limit_result_bytes));
  }
  write_file(folder + "/result.json", text.data(), text.size());
  progress("done", "", 0);
  return kDone;
}

int command(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "--version" && argc == 2) {
    std::printf("refrt %s (%s)\n", version(), build_name());
    return kDone;
  }
  if (word == "info" && argc == 2) {
    std::printf("%s\n", info_text().c_str());
    return kDone;
  }
  std::string request, folder;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--request") == 0) request = argv[i + 1];
    if (std::strcmp(argv[i], "--out") == 0) folder = argv[i + 1];
  }
  if (word != "run" || argc != 6 || request.empty() || folder.empty()) bad_request(kUsage);
  return run(request, folder);
}

}  // namespace
}  // namespace refrt

int main(int argc, char** argv) {
  try {
    return refrt::command(argc, argv);
  } catch (const refrt::Failure& failure) {
    std::fprintf(stderr, "refrt: %s\n", failure.what());
    return failure.code();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "refrt: out of memory\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "refrt: %s\n", error.what());
  }
  return refrt::kRuntimeFailed;
}
