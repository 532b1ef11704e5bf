#include "cli/profile/profiling.h"
#include "experts/routing_file.h"

namespace strata::cli {

std::vector<std::string> profile_files(const Settings& settings) {
  std::vector<std::string> files;
  std::string_view rest = settings.text(Key::kProfileFiles);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    if (end > 0) files.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return files;
}

namespace {

Result<experts::ExpertProfile> uses_of_recording(const std::string& path) {
  ASSIGN_OR_RETURN(const auto reader, experts::RoutingReader::open(real_file_system(), path));
  experts::ExpertProfile profile(reader->model());
  experts::RoutingBlock block;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->next(block));
    if (!more) return profile;
    for (int32_t layer = 0; layer < reader->model().n_layers; layer++) {
      for (int64_t r = 0; r < block.n_rows; r++) {
        for (const uint16_t id : block.row(layer, r)) {
          if (id != experts::kNoExpert) profile.add({layer, id}, 1);
        }
      }
    }
  }
}

}  // namespace

Result<experts::ExpertProfile> read_uses(const std::string& path) {
  ASSIGN_OR_RETURN(const bool recording, experts::is_recording(real_file_system(), path));
  if (recording) return uses_of_recording(path);
  return experts::ExpertProfile::load(real_file_system(), path);
}

}  // namespace strata::cli
