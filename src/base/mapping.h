// Inside base/ only: read-only mappings of real files that survive the loss of their file's pages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"

namespace strata {

// Maps the first `size` bytes of `fd`, which may be closed afterwards; `path` is for messages. The first call installs
// the process's SIGBUS handler. A thread that touches the mapping must not have SIGBUS blocked.
Result<std::unique_ptr<Mapping>> map_file(int fd, uint64_t size, const std::string& path);

// What errno number `error` means, for messages.
std::string errno_text(int error);

}  // namespace strata
