// The one way to give up: a message for the user and the exit code of the runner contract.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace refrt {

enum ExitCode { kDone = 0, kBadRequest = 2, kUnsupported = 3, kRuntimeFailed = 4 };

class Failure : public std::exception {
 public:
  Failure(ExitCode code, std::string message) : code_(code), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
  std::string message_;
};

[[noreturn]] inline void bad_request(const std::string& message) { throw Failure(kBadRequest, message); }
[[noreturn]] inline void unsupported(const std::string& message) { throw Failure(kUnsupported, message); }
[[noreturn]] inline void runtime_failed(const std::string& message) { throw Failure(kRuntimeFailed, message); }

}  // namespace refrt
