#include "api/result.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "backends/cpu/isa.h"

#ifndef REFRT_VERSION
#define REFRT_VERSION "0.0.0"
#endif
#ifndef REFRT_SOURCE_HASH
#define REFRT_SOURCE_HASH "unknown"
#endif

namespace refrt {
namespace {

constexpr int kLevel = 2;

class Writer {
 public:
  Writer& key(const char* name) {
    json_.Key(name);
    return *this;
  }
  void text(std::string_view value) { json_.String(value.data(), static_cast<rapidjson::SizeType>(value.size())); }
  void text(const char* name, std::string_view value) { key(name).text(value); }
  void whole(const char* name, int64_t value) { key(name).json_.Int64(value); }
  void real(const char* name, double value) { key(name).json_.Double(value); }
  void yes(const char* name) { key(name).json_.Bool(true); }
  void null(const char* name) { key(name).json_.Null(); }
  template <typename F>
  void object(F fill) {
    json_.StartObject();
    fill();
    json_.EndObject();
  }
  template <typename F>
  void array(const char* name, F fill) {
    key(name).json_.StartArray();
    fill();
    json_.EndArray();
  }
  void shape(const Tensor& tensor) {
    array("shape", [&] {
      for (int i = 0; i < tensor.rank; ++i) json_.Int64(tensor.dims[i]);
    });
  }
  std::string take() const { return {buffer_.GetString(), buffer_.GetSize()}; }

 private:
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> json_{buffer_};
};

const GraphTensor& tensor_of(const Graph& graph, int index) { return graph.tensors[static_cast<size_t>(index)]; }

void write_nonfinite(Writer& out, const NonFinite& seen) {
  if (seen.nan + seen.pos_inf + seen.neg_inf == 0) return;
  out.key("nonfinite").object([&] {
    if (seen.nan > 0) out.whole("nan", seen.nan);
    if (seen.pos_inf > 0) out.whole("pos_inf", seen.pos_inf);
    if (seen.neg_inf > 0) out.whole("neg_inf", seen.neg_inf);
  });
}

void write_stats(Writer& out, const RawStats& stats) {
  out.key("stats").object([&] {
    out.whole("count", stats.count);
    out.whole("differing", stats.differing);
    out.whole("over_bound", stats.over_bound);
    out.real("max_abs", stats.max_abs);
    out.whole("worst_index", stats.worst_index);
    out.real("worst_got", stats.worst_got);
    out.real("worst_ref", stats.worst_ref);
    out.real("sum_diff", stats.sum_diff);
    out.real("sum_sq_diff", stats.sum_sq_diff);
    out.real("sum_sq_ref", stats.sum_sq_ref);
    out.real("sum_sq_got", stats.sum_sq_got);
    out.real("dot", stats.dot);
    out.whole("nonfinite_mismatch", stats.nonfinite_mismatch);
  });
}

void write_layer(Writer& out, const Graph& graph, const Layer& layer, const LayerResult& result, bool isolated) {
  const Tensor& tensor = tensor_of(graph, layer.tensor).view;
  out.object([&] {
    out.text("id", layer.id);
    out.text("op", layer.op);
    out.text("dtype", dtype_name(tensor.dtype));
    out.shape(tensor);
    out.text("digest", result.seen.digest());
    write_nonfinite(out, result.seen.nonfinite);
    if (result.has_stats) write_stats(out, result.stats);
    if (!result.tensor.empty()) out.text("tensor", result.tensor);
    if (isolated) out.yes("isolated");
  });
}

void write_pass(Writer& out, const Graph& graph, const PassResult& pass) {
  out.object([&] {
    out.text("kind", pass_name(pass.kind));
    out.whole("iteration", pass.iteration);
    out.key("outputs").object([&] {
      for (size_t i = 0; i < pass.outputs.size(); ++i) {
        const std::string name(tensor_of(graph, graph.outputs[i]).name);
        out.text(name.c_str(), pass.outputs[i].digest());
      }
    });
    out.whole("latency_ns", pass.latency_ns);
  });
}

void write_output(Writer& out, const Graph& graph, size_t index, const Observation& seen) {
  const GraphTensor& tensor = tensor_of(graph, graph.outputs[index]);
  out.object([&] {
    out.text("name", tensor.name);
    out.text("dtype", dtype_name(tensor.view.dtype));
    out.shape(tensor.view);
    out.text("digest", seen.digest());
    out.text("path", "outputs/" + numbered(index));
  });
}

void write_who(Writer& out, const Request& request) {
  out.key("runner").object([&] {
    out.text("name", "refrt");
    out.text("version", version());
    out.text("build", build_name());
    out.whole("level", kLevel);
  });
  out.key("effective").object([&] {
    out.text("backend", "cpu");
    out.text("precision", "fp32");
    out.whole("threads", request.threads);
    out.null("affinity");
    out.text("dispatch", dispatch_name());
  });
}

}  // namespace

const char* version() { return REFRT_VERSION; }

const char* build_name() {
#if defined(REFRT_FLAVOUR_FAST)
  return "fast";
#else
  return "canonical";
#endif
}

const char* pass_name(PassKind kind) { return kind == PassKind::plain ? "plain" : "instrumented"; }

std::string result_text(const Request& request, const Graph& graph, const Result& result) {
  Writer out;
  out.object([&] {
    out.whole("contract", 1);
    out.text("job", request.job);
    out.whole("attempt", request.attempt);
    write_who(out, request);
    out.whole("load_ns", result.load_ns);
    out.array("passes", [&] {
      for (const PassResult& pass : result.passes) write_pass(out, graph, pass);
    });
    out.array("outputs", [&] {
      for (size_t i = 0; i < result.outputs.size(); ++i) write_output(out, graph, i, result.outputs[i]);
    });
    if (result.layers == nullptr && result.isolated.empty()) return;
    out.array("layers", [&] {
      for (size_t i = 0; result.layers != nullptr && i < graph.layers.size(); ++i) {
        const LayerResult& seen = (*result.layers)[i];
        if (seen.captured) write_layer(out, graph, graph.layers[i], seen, false);
      }
      for (const IsolatedResult& alone : result.isolated) {
        write_layer(out, graph, graph.layers[alone.layer], alone.result, true);
      }
    });
  });
  return out.take();
}

std::string info_text() {
  Writer out;
  out.object([&] {
    out.text("name", "refrt");
    out.text("version", version());
    out.text("build", build_name());
    out.text("source", REFRT_SOURCE_HASH);
    out.text("dispatch", dispatch_name());
    out.whole("contract", 1);
    out.whole("level", kLevel);
    out.array("ops", [&] {
      for (std::string_view name : operator_names()) out.text(name);
    });
  });
  return out.take();
}

}  // namespace refrt
