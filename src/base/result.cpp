#include "base/result.h"

namespace strata {

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported:
      return 2;
    case ErrorCode::kIo:
    case ErrorCode::kInterrupted:
    case ErrorCode::kNoMemory:
    case ErrorCode::kCancelled:
    case ErrorCode::kInternal:
      return 1;
  }
  return 1;
}

}  // namespace strata
