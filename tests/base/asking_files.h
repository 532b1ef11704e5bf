// Files whose reads a test decides about one by one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace strata::test {

// Passes reads on to `inner`'s files after asking `before` about each, on the thread that reads. Outlives its files.
class AskingFiles final : public FileSystem {
 public:
  using Before = std::function<Status(uint64_t offset, size_t bytes)>;
  AskingFiles(FileSystem& inner, Before before) : inner_(inner), before_(std::move(before)) {}
  Result<std::unique_ptr<File>> open(const std::string& path) override {
    class Asking final : public File {
     public:
      Asking(std::unique_ptr<File> inner, const Before& before) : inner_(std::move(inner)), before_(before) {}
      const std::string& path() const override { return inner_->path(); }
      uint64_t size() const override { return inner_->size(); }
      Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
        RETURN_IF_ERROR(before_(offset, dst.size()));
        return inner_->read_some(offset, dst);
      }
      Result<std::unique_ptr<Mapping>> map() override { return inner_->map(); }

     private:
      std::unique_ptr<File> inner_;
      const Before& before_;
    };
    ASSIGN_OR_RETURN(auto file, inner_.open(path));
    return std::unique_ptr<File>(std::make_unique<Asking>(std::move(file), before_));
  }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  bool is_directory(const std::string& path) override { return inner_.is_directory(path); }
  Result<std::vector<std::string>> list(const std::string& directory) override { return inner_.list(directory); }

 private:
  FileSystem& inner_;
  const Before before_;
};

}  // namespace strata::test
