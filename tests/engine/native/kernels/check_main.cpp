// Runs every kernel against its plain version; prints what differs and one digest of all results. The digest is the
// same on every chip and compiler.
#include "check.h"

int main() {
  check::Report report;
  check::conv(report);
  check::matmul(report);
  check::lstm(report);
  check::maths(report);
  return report.finish();
}
