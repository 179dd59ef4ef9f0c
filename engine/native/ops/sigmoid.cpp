#include "ops/elementwise.h"

namespace refrt {
namespace {

class Sigmoid : public Operator {
 public:
  void prepare(PrepareContext& context) override { prepare_unary(context); }
  void run(const RunContext& context) override {
    Stage stage;
    stage.kind = StageKind::sigmoid;
    run_stage(context, stage);
  }
};

}  // namespace

REFRT_OPERATOR("Sigmoid", Sigmoid);

}  // namespace refrt
