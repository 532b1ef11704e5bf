#include "kernels/cuda/matvec.cuh"

#include "kernels/cuda/matvec_staged.cuh"

namespace strata::kernels::cuda {

bool matvec_norms(const Product& p) {
  return p.format != ActFormat::kNone && matvec_chunk(p.cols, matvec_rows(p) * kRoundedBytesPer256) >= p.cols;
}

namespace {

// Matrices of a model, where there are a copy engine and room.
bool launch_staged(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream) {
  if (!starts_early() || p.experts.slot_of != nullptr || p.n_parts != 1) return false;
  return launch_matvec_staged_k(p, n_sms, max_shared_bytes, stream) ||
         launch_matvec_staged_blocks(p, n_sms, max_shared_bytes, stream);
}

}  // namespace

void launch_matvec(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream) {
  if (p.max_items == 0 || p.rows == 0) return;
  if (p.format == ActFormat::kNone) return launch_matvec_float(p, n_sms, stream);
  if (launch_staged(p, n_sms, max_shared_bytes, stream)) return;
  if (launch_matvec_k(p, n_sms, stream)) return;
  if (launch_matvec_blocks(p, n_sms, stream)) return;
  if (launch_matvec_iq(p, n_sms, stream)) return;
  launch_matvec_bits(p, n_sms, stream);
}

}  // namespace strata::kernels::cuda
