// What the tests of the shared arena have in common: models on a drive, folders in memory, engines in this process.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/format.h"
#include "experts/arena_models.h"
#include "experts/arena_process.h"
#include "experts/checksum.h"
#include "support/golden.h"

namespace strata::test {

// A model of arena_models.h, opened.
struct ArenaModel {
  ArenaModel(const std::string& model_name, const std::string& path)
      : name(model_name), model(gguf::Model::open(path, real_file_system()).value()),
        layout(arena_layout(model_name, *model)) {}
  std::string name;
  std::unique_ptr<gguf::Model> model;
  experts::ExpertLayout layout;
};

// Files of all models; made once, read by all tests.
class ArenaModels {
 public:
  static const ArenaModel& get(const std::string& name) {
    static ArenaModels all;
    return *all.models_.at(name);
  }
  static std::string path(const std::string& name) { return get(name).model->path(); }

 private:
  ArenaModels() {
    for (const char* name : {"a", "b", "c", "large"}) {
      const std::string path = folder_.file(std::string(name) + ".gguf");
      write_arena_model(name, path);
      models_.emplace(name, std::make_unique<ArenaModel>(name, path));
    }
  }
  TempDir folder_;
  std::map<std::string, std::unique_ptr<ArenaModel>> models_;
};

// A new folder in one that is in memory, removed with all that is in it.
class ArenaFolder : public TempDir {
 public:
  explicit ArenaFolder(const std::string& where = "/dev/shm") : TempDir(where) {
    if (path().empty()) std::abort();
  }
  std::string arena() const { return file("arena"); }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path()), {}));
  }
};

struct FileState {
  ino_t inode = 0;
  uint64_t bytes = 0;
  uint64_t allocated = 0;
};
inline std::optional<FileState> file_state(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileState{info.st_ino, static_cast<uint64_t>(info.st_size), static_cast<uint64_t>(info.st_blocks) * 512};
}

// Changes the byte at `offset` of a file to what `change` makes of it, which must be another value, and leaves no trace
// in the file's time of modification.
inline void change_silently(const std::string& path, uint64_t offset,
                            const std::function<std::byte(std::byte)>& change) {
  struct stat before {};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  {
    auto file = *SharedFile::open(path).value();
    const uint64_t page = offset / kSharedPage * kSharedPage;
    const auto mapping = file.map_writable(page, kSharedPage).value();
    std::byte& place = mapping->writable_bytes()[offset - page];
    const std::byte changed = change(place);
    ASSERT_NE(changed, place);
    place = changed;
  }
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// What --verify-arena would say of the model's own files.
inline uint64_t file_checksum(const std::string& name) {
  const ArenaModel& m = ArenaModels::get(name);
  ThreadPool threads({.n_threads = 1});
  Stats stats;
  const auto mapped = make_mapped_source(*m.model, m.layout, stats).value();
  return source_checksum(*mapped, m.layout, threads).value();
}

// An engine in this process.
struct InProcess {
  explicit InProcess(const std::string& model, const std::string& arena, int n_threads = 1,
                     Clock& clock = real_clock(), int64_t timeout_s = 600)
      : m(ArenaModels::get(model)), threads({.n_threads = n_threads, .spin_us = 0}),
        source(experts::SharedArenaSource::create({.path = arena,
                                                   .model = *m.model,
                                                   .layout = m.layout,
                                                   .threads = threads,
                                                   .clock = clock,
                                                   .stats = stats,
                                                   .watcher = noted,
                                                   .timeout_s = timeout_s})) {}

  bool ok() const { return source.ok(); }
  std::string message() const { return source.ok() ? "" : source.error().message; }
  int64_t reads() const { return stats.get(Counter::kFileReads); }
  // Of what it reads in the arena now.
  uint64_t checksum() { return source_checksum(**source, m.layout, threads).value(); }

  const ArenaModel& m;
  ThreadPool threads;
  Stats stats;
  NotedSteps noted;
  Result<std::unique_ptr<experts::SharedArenaSource>> source;
};

}  // namespace strata::test
