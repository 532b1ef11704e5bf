#include "kernels/cuda/matvec.cuh"

namespace strata::kernels::cuda {

bool matvec_norms(const Product& p) {
  return p.format != ActFormat::kNone && matvec_chunk(p.cols, matvec_rows(p) * kRoundedBytesPer256) >= p.cols;
}

void launch_matvec(const Product& p, int n_sms, cudaStream_t stream) {
  if (p.max_items == 0 || p.rows == 0) return;
  if (p.format == ActFormat::kNone) return launch_matvec_float(p, n_sms, stream);
  if (launch_matvec_k(p, n_sms, stream)) return;
  if (launch_matvec_blocks(p, n_sms, stream)) return;
  if (launch_matvec_iq(p, n_sms, stream)) return;
  launch_matvec_bits(p, n_sms, stream);
}

}  // namespace strata::kernels::cuda
