// Files some bytes of which cannot be read, or take long: by place, so that it does not matter which read comes first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/format.h"
#include "base/mutex.h"

namespace strata::test {

class RangeFaults final : public FileSystem {
 public:
  // Both outlive this and the files opened through it.
  RangeFaults(FileSystem& inner, Clock& clock) : inner_(inner), clock_(clock) {}

  // Reads that touch [begin, end) of any file fail from now on, or with stall_ns > 0 take so much longer.
  void spoil(uint64_t begin, uint64_t end, int64_t stall_ns = 0) {
    const LockGuard lock(mutex_);
    ranges_.push_back({begin, end, stall_ns});
  }
  void heal() {
    const LockGuard lock(mutex_);
    ranges_.clear();
  }

  Result<std::unique_ptr<File>> open(const std::string& path) override {
    ASSIGN_OR_RETURN(auto file, inner_.open(path));
    return std::unique_ptr<File>(new Spoilt(*this, std::move(file)));
  }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  bool is_directory(const std::string& path) override { return inner_.is_directory(path); }
  Result<std::vector<std::string>> list(const std::string& directory) override { return inner_.list(directory); }

 private:
  struct Range {
    uint64_t begin, end;
    int64_t stall_ns;
  };
  class Spoilt final : public File {
   public:
    Spoilt(RangeFaults& owner, std::unique_ptr<File> file) : owner_(owner), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    Result<std::unique_ptr<Mapping>> map() override { return file_->map(); }
    Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
      for (const Range& range : owner_.ranges()) {
        if (offset >= range.end || range.begin >= offset + dst.size()) continue;
        if (range.stall_ns == 0) {
          return Error{ErrorCode::kIo, format("cannot read {} bytes at offset {} of {}: spoilt", dst.size(), offset,
                                              file_->path())};
        }
        owner_.clock_.sleep_ns(range.stall_ns);
      }
      return file_->read_some(offset, dst);
    }

   private:
    RangeFaults& owner_;
    std::unique_ptr<File> file_;
  };
  std::vector<Range> ranges() {
    const LockGuard lock(mutex_);
    return ranges_;
  }

  FileSystem& inner_;
  Clock& clock_;
  Mutex mutex_;
  std::vector<Range> ranges_;
};

}  // namespace strata::test
