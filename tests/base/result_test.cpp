#include "base/result.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace strata {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{ErrorCode::kBadInput, "odd"};
  return n / 2;
}

Result<int> quarter(int n) {
  ASSIGN_OR_RETURN(const int once, half(n));
  ASSIGN_OR_RETURN(const int twice, half(once));
  return twice;
}

Status check_all(std::initializer_list<int> numbers) {
  for (const int n : numbers) RETURN_IF_ERROR(quarter(n));
  return {};
}

TEST(ResultTest, ValuesPassAndTheFirstFailureReturns) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_TRUE(check_all({4, 8}).ok());
  EXPECT_EQ(check_all({4, 2, 8}).error().code, ErrorCode::kBadInput);
}

TEST(ResultTest, HoldsValuesThatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  EXPECT_EQ(**result, 5);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(ResultTest, ExitCodesTellTheUsersFaultFromOurs) {
  for (const ErrorCode code : {ErrorCode::kBadInput, ErrorCode::kNotFound, ErrorCode::kUnsupported}) {
    EXPECT_EQ(exit_code_of(code), 2);
  }
  for (const ErrorCode code : {ErrorCode::kIo, ErrorCode::kInterrupted, ErrorCode::kNoMemory, ErrorCode::kCancelled,
                               ErrorCode::kInternal}) {
    EXPECT_EQ(exit_code_of(code), 1);
  }
}

TEST(ResultDeathTest, TakingTheSideThatIsNotThereIsABug) {
  const Result<int> failed = Error{ErrorCode::kIo, "x"};
  const Status good;
  EXPECT_DEATH(static_cast<void>(failed.value()), "ok\\(\\)");
  EXPECT_DEATH(static_cast<void>(good.error()), "!ok\\(\\)");
}

}  // namespace
}  // namespace strata
