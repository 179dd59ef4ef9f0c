#include "api/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "api/failure.h"

namespace refrt {

MappedFile::MappedFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) bad_request("cannot open " + path + ": " + std::strerror(errno));
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    bad_request(path + " is not a regular file");
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    if (mapped == MAP_FAILED) bad_request("cannot map " + path + ": " + std::strerror(errno));
    data_ = static_cast<const unsigned char*>(mapped);
  } else {
    close(descriptor);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<unsigned char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    runtime_failed("cannot create folder " + path + ": " + std::strerror(errno));
  }
}

void write_file(const std::string& path, const void* data, size_t bytes) {
  const std::string part = path + ".part";
  std::FILE* file = std::fopen(part.c_str(), "wb");
  if (file == nullptr) runtime_failed("cannot write " + path + ": " + std::strerror(errno));
  const bool written = bytes == 0 || std::fwrite(data, 1, bytes, file) == bytes;
  const bool flushed = std::fclose(file) == 0;
  if (!written || !flushed || std::rename(part.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(part.c_str());
    runtime_failed("cannot write " + path + ": " + reason);
  }
}

}  // namespace refrt
