#include "device/uploader.h"

namespace strata::device {

Result<std::unique_ptr<Uploader>> Uploader::create(Device& device, Stream& stream, size_t piece_bytes,
                                                   const std::string& name) {
  std::unique_ptr<Uploader> uploader(new Uploader(stream, piece_bytes));
  for (Stage& stage : uploader->stages_) {
    ASSIGN_OR_RETURN(stage.buffer, device.allocate_host(piece_bytes, MemoryKind::kPinned, name));
    stage.copied = device.make_event();
  }
  return uploader;
}

Uploader::~Uploader() {
  for (const Stage& stage : stages_) {
    if (stage.in_use) stage.copied->synchronize();
  }
}

}  // namespace strata::device
