// MemAvailable or MemFree of the machine, tightened by the limits of the control groups above this process (kernel
// documentation: admin-guide/cgroup-v2.rst and admin-guide/cgroup-v1/memory.rst).
//
// A group with limit L that uses U has L - U free, and available beside that what it could give back at once: its clean
// file cache. The kernel counts that cache as used, and right after a model was read it is most of U.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/bytes.h"
#include "base/format.h"
#include "base/small_file.h"
#include "base/topology.h"

namespace strata {
namespace {

std::optional<uint64_t> parse_bytes(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The names by which the two versions call the same things.
struct CgroupFiles {
  std::vector<const char*> limits;
  const char* usage;
  const char* inactive_file;
  const char* dirty;
  const char* writeback;
};

// memory.high is where the kernel starts to throttle the group, so for a plan it is a limit as well.
const CgroupFiles kVersion2 = {{"memory.max", "memory.high"}, "memory.current", "inactive_file", "file_dirty",
                               "file_writeback"};
// The total_ values include the groups below, as the usage does.
const CgroupFiles kVersion1 = {{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file",
                               "total_dirty", "total_writeback"};

template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The "name value" line of a memory.stat file; 0 when it is missing, nullopt when it is malformed.
std::optional<uint64_t> stat_value(std::string_view stat, std::string_view name) {
  std::optional<uint64_t> value = 0;
  for_each_line(stat, [&](std::string_view line) {
    if (line.size() <= name.size() || !line.starts_with(name) || line[name.size()] != ' ') return;
    value = parse_bytes(line.substr(name.size() + 1));
  });
  return value;
}

// Bytes of file cache that can be dropped without writing. None where the kernel doesn't say.
uint64_t clean_cache_bytes(const std::string& group, const CgroupFiles& files) {
  const auto stat = read_small_file(group + "/memory.stat");
  if (!stat.ok()) return 0;
  const auto inactive = stat_value(*stat, files.inactive_file);
  const auto dirty = stat_value(*stat, files.dirty);
  const auto writeback = stat_value(*stat, files.writeback);
  if (!inactive || !dirty || !writeback) return 0;
  const auto busy = checked_add(*dirty, *writeback);
  return busy && *busy < *inactive ? *inactive - *busy : 0;
}

// Which room is asked for: what nobody uses, or also what can be had by dropping clean file cache.
enum class Room { kFree, kAvailable };

// What one group leaves: UINT64_MAX without a limit, 0 where its limit or usage can't be read.
uint64_t group_room_bytes(const std::string& group, const CgroupFiles& files, Room room) {
  uint64_t limit = UINT64_MAX;
  for (const char* name : files.limits) {
    const auto text = read_small_file(group + "/" + name);
    if (!text.ok() && text.error().code == ErrorCode::kNotFound) continue;  // the root, or the controller is off here
    if (!text.ok()) return 0;
    if (*text == "max\n" || *text == "max") continue;
    const auto bytes = parse_bytes(*text);
    if (!bytes) return 0;
    limit = std::min(limit, *bytes);
  }
  if (limit == UINT64_MAX) return UINT64_MAX;
  const auto usage_text = read_small_file(group + "/" + files.usage);
  if (!usage_text.ok()) return 0;
  const auto usage = parse_bytes(*usage_text);
  if (!usage) return 0;
  const uint64_t clean = room == Room::kAvailable ? clean_cache_bytes(group, files) : 0;
  const uint64_t held = *usage - std::min(*usage, clean);
  return limit - std::min(limit, held);
}

// The tightest of the groups from `path` up to the root. A container may see its own group as the root while `path`
// still is the host's; then only the root exists, which is the right one.
uint64_t hierarchy_room_bytes(const std::string& root, std::string path, const CgroupFiles& files, Room room) {
  if (path.find("..") != std::string::npos) path.clear();  // outside of what this process may see
  uint64_t bytes = UINT64_MAX;
  for (;;) {
    while (path.ends_with('/')) path.pop_back();
    bytes = std::min(bytes, group_room_bytes(root + path, files, room));
    if (path.empty()) return bytes;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

bool names_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == "memory") return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

// `membership` is /proc/self/cgroup: lines of hierarchy:controllers:path, version 2 with no controllers named. Systems
// that run both versions mount version 2 under unified/.
uint64_t cgroup_room_bytes(const std::string& membership, const std::string& cgroup_root, Room room) {
  uint64_t bytes = UINT64_MAX;
  for_each_line(membership, [&](std::string_view line) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) {
      bytes = std::min(bytes, hierarchy_room_bytes(cgroup_root, path, kVersion2, room));
      bytes = std::min(bytes, hierarchy_room_bytes(cgroup_root + "/unified", path, kVersion2, room));
    } else if (names_memory(controllers)) {
      bytes = std::min(bytes, hierarchy_room_bytes(cgroup_root + "/memory", path, kVersion1, room));
    }
  });
  return bytes;
}

Result<uint64_t> machine_room_bytes(const std::string& meminfo_path, Room room) {
  ASSIGN_OR_RETURN(const std::string meminfo, read_small_file(meminfo_path));
  const std::string_view name = room == Room::kAvailable ? "MemAvailable:" : "MemFree:";
  std::optional<uint64_t> bytes;
  for_each_line(meminfo, [&](std::string_view line) {
    constexpr std::string_view kUnit = " kB";
    if (!line.starts_with(name) || !line.ends_with(kUnit)) return;
    line.remove_prefix(name.size());
    line.remove_suffix(kUnit.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (const auto kib = parse_bytes(line)) bytes = checked_mul(*kib, kKiB);
  });
  if (!bytes) {
    return Error{ErrorCode::kIo, format("{} has no readable {} line; give the RAM with --ram-gib",
                                        printable(meminfo_path), name.substr(0, name.size() - 1))};
  }
  return *bytes;
}

Result<uint64_t> room_bytes(const std::string& proc_root, const std::string& cgroup_root, Room room) {
  ASSIGN_OR_RETURN(const uint64_t machine, machine_room_bytes(proc_root + "/meminfo", room));
  const auto membership = read_small_file(proc_root + "/self/cgroup");
  if (!membership.ok()) {
    if (membership.error().code == ErrorCode::kNotFound) return machine;  // a kernel without control groups
    return membership.error();
  }
  return std::min(machine, cgroup_room_bytes(*membership, cgroup_root, room));
}

}  // namespace

Result<uint64_t> available_ram_bytes(const std::string& proc_root, const std::string& cgroup_root) {
  return room_bytes(proc_root, cgroup_root, Room::kAvailable);
}

Result<uint64_t> free_ram_bytes(const std::string& proc_root, const std::string& cgroup_root) {
  return room_bytes(proc_root, cgroup_root, Room::kFree);
}

}  // namespace strata
