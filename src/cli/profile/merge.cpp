#include "base/counted.h"
#include "base/format.h"
#include "base/output_file.h"
#include "cli/profile/profiling.h"
#include "cli/streams.h"

namespace strata::cli {

Status profile_merge(const Settings& settings) {
  const std::vector<std::string> files = profile_files(settings);
  const std::string& out = settings.text(Key::kOut);
  ASSIGN_OR_RETURN(experts::ExpertProfile sum, read_uses(files[0]));
  for (size_t i = 1; i < files.size(); i++) {
    ASSIGN_OR_RETURN(const experts::ExpertProfile next, read_uses(files[i]));
    RETURN_IF_ERROR(sum.merge(next, files[i]));
  }
  RETURN_IF_ERROR(sum.save(out));
  if (is_standard_output(out)) return {};
  return write_stdout(format("{}: {} uses of {}, from {}\n", path_text(out), sum.total(), sum.model().text(),
                             counted(static_cast<int64_t>(files.size()), "file")));
}

}  // namespace strata::cli
