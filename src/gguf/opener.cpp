// Opening a model: from a path to the files of its set, and the checks that they belong together.
#include <map>
#include <utility>

#include "base/format.h"
#include "gguf/encoding.h"
#include "gguf/model_impl.h"
#include "gguf/parser.h"
#include "gguf/sorted_order.h"
#include "gguf/split.h"

namespace strata::gguf {
namespace {

constexpr size_t kNamesListed = 8;  // names in one message

std::string shown(std::string_view path) { return printable(path, kMaxPathPrinted); }

// "a, b, c and 5 more".
std::string list_of_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNamesListed; ++i) text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > kNamesListed) text += format(" and {} more", names.size() - kNamesListed);
  return text;
}

// An integer key of one file; fallback when it is absent.
Result<int64_t> int_key(const ParsedFile& file, const std::string& path, std::string_view key, int64_t fallback) {
  const Value* value = file.find(key);
  if (!value) return fallback;
  if (value->is_array()) return Error{ErrorCode::kBadInput, format("{}: key '{}' is an array", shown(path), key)};
  auto number = value->as_int();
  if (number.ok()) return number;
  return Error{number.error().code, format("{}: key '{}' {}", shown(path), key, number.error().message)};
}

// The files that make up the model a path belongs to.
struct FileSet {
  std::vector<std::string> paths;
  bool named_as_split = false;
};

}  // namespace

class Opener {
 public:
  explicit Opener(FileSystem& files) : files_(files) {}
  Result<std::unique_ptr<Model>> open(const std::string& path);

 private:
  Result<std::string> pick_from_folder(const std::string& folder);
  Result<FileSet> members(const std::string& path);
  Status check_present(const FileSet& set, const std::string& asked);
  Status add_file(Model::Impl& impl, const FileSet& set, size_t index);
  Status check_split_keys(const ParsedFile& file, const FileSet& set, size_t index);
  Status check_kind(const ParsedFile& file, const std::string& path);
  Status check_total(const Model::Impl& impl, const FileSet& set);
  Status index_names(Model::Impl& impl);

  FileSystem& files_;
  Limits left_;                     // of the whole set
  int64_t tensors_announced_ = 0;  // split.tensors.count of the first file
};

Result<std::unique_ptr<Model>> Model::open(const std::string& path, FileSystem& files) {
  return Opener(files).open(path);
}

Result<std::unique_ptr<Model>> Opener::open(const std::string& path) {
  std::string file = path;
  if (files_.is_directory(path)) {
    ASSIGN_OR_RETURN(file, pick_from_folder(path));
  }
  ASSIGN_OR_RETURN(const FileSet set, members(file));
  RETURN_IF_ERROR(check_present(set, file));

  std::unique_ptr<Model> model(new Model);
  Model::Impl& impl = *model->impl_;
  for (size_t i = 0; i < set.paths.size(); ++i) RETURN_IF_ERROR(add_file(impl, set, i));
  RETURN_IF_ERROR(check_total(impl, set));
  RETURN_IF_ERROR(index_names(impl));
  return model;
}

// The file to open when a folder holds one model. A single incomplete set is returned too: opening it says what is
// missing.
Result<std::string> Opener::pick_from_folder(const std::string& folder) {
  struct Found {
    std::string file;  // any of its files
    int present = 0;
  };
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.list(folder));
  std::map<std::pair<std::string, int>, Found> sets;
  std::vector<std::string> models;  // for people
  std::string file;
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf") || name.starts_with('.')) continue;
    file = name;
    if (const auto split = parse_split_name(name)) {
      Found& found = sets[{split->stem, split->count}];
      found.file = name;
      ++found.present;
    } else {
      models.push_back(name);
    }
  }
  for (const auto& [key, found] : sets) {
    models.push_back(format("{}-*-of-{:05}.gguf ({} of {} files)", printable(key.first), key.second, found.present,
                            key.second));
  }
  if (models.empty()) return Error{ErrorCode::kNotFound, format("{}: no .gguf file in this folder", shown(folder))};
  if (models.size() > 1) {
    return Error{ErrorCode::kBadInput, format("{}: {} models in this folder, name one of them: {}", shown(folder),
                                              models.size(), list_of_names(models))};
  }
  return folder + (folder.ends_with('/') ? "" : "/") + file;
}

// Names are derived from the given path alone, never from what a file says.
Result<FileSet> Opener::members(const std::string& path) {
  const auto split = parse_split_name(file_name_of(path));
  if (!split) return FileSet{{path}, false};
  if (!split->valid()) {
    return Error{ErrorCode::kBadInput, format("{}: named as part {} of {}, but parts are numbered from 1 to {}",
                                              shown(path), split->number, split->count, split->count)};
  }
  if (split->count > kMaxShards) {
    return Error{ErrorCode::kBadInput,
                 format("{}: a set of {} files, at most {} are supported", shown(path), split->count, kMaxShards)};
  }
  FileSet set{{}, true};
  for (int number = 1; number <= split->count; ++number) {
    set.paths.push_back(std::string(directory_of(path)) + split_file_name(split->stem, number, split->count));
  }
  return set;
}

Status Opener::check_present(const FileSet& set, const std::string& asked) {
  if (set.paths.size() == 1 || !files_.exists(asked)) return {};  // opening it says why
  std::vector<std::string> missing;
  for (const std::string& path : set.paths) {
    if (!files_.exists(path)) missing.emplace_back(file_name_of(path));
  }
  if (missing.empty()) return {};
  return Error{ErrorCode::kNotFound, format("{}: {} of the {} files of this set are missing from its folder: {}",
                                            shown(asked), missing.size(), set.paths.size(), list_of_names(missing))};
}

Status Opener::add_file(Model::Impl& impl, const FileSet& set, size_t index) {
  const std::string& path = set.paths[index];
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.open(path));
  ASSIGN_OR_RETURN(ParsedFile parsed, parse_file(*file, left_));
  RETURN_IF_ERROR(check_split_keys(parsed, set, index));
  if (index == 0) RETURN_IF_ERROR(check_kind(parsed, path));

  left_.tensors -= parsed.tensors.size();
  if (index == 0) {
    impl.tensors = std::exchange(parsed.tensors, {});
  } else {
    for (TensorInfo& tensor : parsed.tensors) {
      tensor.shard = static_cast<int>(index);
      impl.tensors.push_back(std::move(tensor));
    }
  }
  impl.shards.push_back({path, file->size(), parsed.data_offset, parsed.version, parsed.alignment, std::move(file)});
  if (index == 0) {
    // Only the first file's entries stay, so only they count against what the others may use.
    left_.metadata_bytes -= parsed.metadata.size();
    left_.strings -= parsed.n_strings;
    impl.first = std::move(parsed);
  }
  return {};
}

Status Opener::check_split_keys(const ParsedFile& file, const FileSet& set, size_t index) {
  const std::string& path = set.paths[index];
  const auto count = static_cast<int64_t>(set.paths.size());
  const auto differs = [&](std::string_view key, int64_t found, int64_t expected, const char* why) {
    return Error{ErrorCode::kBadInput,
                 format("{}: key '{}' is {}, expected {} {}", shown(path), key, found, expected, why)};
  };
  ASSIGN_OR_RETURN(const int64_t said_count, int_key(file, path, kSplitCountKey, 1));
  if (!set.named_as_split) {
    if (said_count <= 1) return {};
    return Error{ErrorCode::kBadInput,
                 format("{}: one of {} files of a set (key '{}'), but not named like it: give the files their names "
                        "NAME-00001-of-{:05}.gguf back",
                        shown(path), said_count, kSplitCountKey, said_count)};
  }
  if (count > 1) {
    for (const std::string_view key : {kSplitCountKey, kSplitNoKey, kSplitTensorsKey}) {
      const bool required = key != kSplitTensorsKey || index == 0;
      if (!required || file.find(key)) continue;
      return Error{ErrorCode::kBadInput, format("{}: named as one of {} files of a set, but key '{}' is missing",
                                                shown(path), count, key)};
    }
  }
  if (said_count != count && !(count == 1 && said_count == 0)) {
    return differs(kSplitCountKey, said_count, count, "from the file's name: not a file of this set");
  }
  ASSIGN_OR_RETURN(const int64_t number, int_key(file, path, kSplitNoKey, 0));
  if (number != static_cast<int64_t>(index)) {
    return differs(kSplitNoKey, number, static_cast<int64_t>(index),
                   "from the file's name: files were renamed or swapped");
  }
  ASSIGN_OR_RETURN(const int64_t total, int_key(file, path, kSplitTensorsKey, tensors_announced_));
  if (index == 0) tensors_announced_ = total;
  if (total != tensors_announced_) {
    return differs(kSplitTensorsKey, total, tensors_announced_, "as in the first file: not a file of this set");
  }
  return {};
}

Status Opener::check_kind(const ParsedFile& file, const std::string& path) {
  const Value* kind = file.find(kTypeKey);
  if (!kind) return {};
  if (kind->is_array()) return Error{ErrorCode::kBadInput, format("{}: key '{}' is an array", shown(path), kTypeKey)};
  const auto text = kind->as_string();
  if (!text.ok()) {
    return Error{text.error().code, format("{}: key '{}' {}", shown(path), kTypeKey, text.error().message)};
  }
  if (*text == "model") return {};
  return Error{ErrorCode::kUnsupported, format("{}: {} is '{}': not a model, it cannot be run by itself", shown(path),
                                               kTypeKey, printable(*text))};
}

Status Opener::check_total(const Model::Impl& impl, const FileSet& set) {
  if (set.paths.size() == 1) return {};
  if (tensors_announced_ == static_cast<int64_t>(impl.tensors.size())) return {};
  return Error{ErrorCode::kBadInput,
               format("{}: key '{}' is {}, but the {} files hold {} tensors", shown(set.paths[0]), kSplitTensorsKey,
                      tensors_announced_, set.paths.size(), impl.tensors.size())};
}

Status Opener::index_names(Model::Impl& impl) {
  const auto& tensors = impl.tensors;
  impl.by_name = sorted_order(tensors.size(), [&](uint32_t i) -> const std::string& { return tensors[i].name; });
  for (size_t i = 1; i < tensors.size(); ++i) {
    const TensorInfo& a = tensors[impl.by_name[i - 1]];
    const TensorInfo& b = tensors[impl.by_name[i]];
    if (a.name != b.name) continue;
    return Error{ErrorCode::kBadInput,
                 format("{}: tensor '{}' is also in {}", shown(impl.shards[static_cast<size_t>(b.shard)].path),
                        printable(b.name), shown(impl.shards[static_cast<size_t>(a.shard)].path))};
  }
  return {};
}

}  // namespace strata::gguf
