// What a loader asks of its device.
#include "model/weights.h"

#include "device/forwarding_device.h"
#include "device/support.h"
#include "model/refusal.h"

namespace strata::test {
namespace {

// A device without kernels for one operation.
class FewKernels final : public ForwardingDevice {
 public:
  FewKernels(device::Device& inner, int lacking) : ForwardingDevice(inner), lacking_(lacking) {}
  bool has_kernels(int op) const override { return op != lacking_; }

 private:
  int lacking_;
};

TEST(WeightLoader, AModelThatNeedsWhatTheDeviceLacksIsRefused) {
  MemoryFileSystem files;
  files.add_file(kCopyPath, ModelCopy("qwen3moe").bytes());
  const auto model = gguf::Model::open(kCopyPath, files).value();
  device::host::HostDevice host(host_options());
  FewKernels device(host, device::op_index<device::DeltaConv>());
  const auto stream = device.make_stream("weights");
  const model::WeightLoader loader(*model, device, *stream, false);
  EXPECT_TRUE((loader.require_ops<device::MatMul, device::DeltaNet>().ok()));
  const Status refused = loader.require_ops<device::MatMul, device::DeltaConv, device::DeltaNet>();
  expect_refused(refused, {"--device " + host.name(), "'delta_conv'", "use --device cpu"});
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE((model::WeightLoader::measuring(*model).require_ops<device::DeltaConv>().ok()));
}

}  // namespace
}  // namespace strata::test
