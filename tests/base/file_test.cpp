#include "base/file.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/small_file.h"
#include "support/golden.h"

namespace strata {
namespace {

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class FileTest : public testing::Test {
 protected:
  std::unique_ptr<File> open(const std::string& path) {
    auto file = real_file_system().open(path);
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return std::move(file).value();
  }
  ErrorCode open_code(const std::string& path) {
    const auto file = real_file_system().open(path);
    if (file.ok()) {
      ADD_FAILURE() << path << " opened";
      return ErrorCode::kInternal;
    }
    EXPECT_NE(file.error().message.find("cannot open"), std::string::npos) << file.error().message;
    return file.error().code;
  }

  test::TempDir dir_;
};

TEST_F(FileTest, ReadsWhereItIsAsked) {
  write_file(dir_.file("f"), "0123456789");
  const auto file = open(dir_.file("f"));
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(file->path(), dir_.file("f"));
  std::vector<std::byte> buffer(4);
  EXPECT_EQ(*file->read_some(3, buffer), 4u);
  EXPECT_EQ(text_of(buffer), "3456");
  EXPECT_EQ(*file->read_some(8, buffer), 2u);
  EXPECT_EQ(*file->read_some(10, buffer), 0u);
  EXPECT_EQ(*file->read_some(UINT64_MAX, buffer), 0u);
  EXPECT_EQ(*file->read_some(INT64_MAX, buffer), 0u);
  EXPECT_EQ(*file->read_some(0, {}), 0u);
}

TEST_F(FileTest, ReadExactPastTheEndNamesFileOffsetAndLength) {
  write_file(dir_.file("short"), "0123456789");
  const auto file = open(dir_.file("short"));
  std::vector<std::byte> buffer(8);
  EXPECT_TRUE(file->read_exact(2, buffer).ok());
  EXPECT_EQ(text_of(buffer), "23456789");
  for (const uint64_t offset : {uint64_t{3}, uint64_t{10}, UINT64_MAX - 8, UINT64_MAX - 7, UINT64_MAX}) {
    const Status status = file->read_exact(offset, buffer);
    ASSERT_FALSE(status.ok()) << offset;
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_NE(status.error().message.find("8 bytes at offset " + std::to_string(offset)), std::string::npos);
    EXPECT_NE(status.error().message.find(dir_.file("short")), std::string::npos);
  }
  EXPECT_TRUE(file->read_exact(10, {}).ok());
}

TEST_F(FileTest, WhatIsMissingIsNotFound) {
  write_file(dir_.file("plain"), "x");
  EXPECT_EQ(open_code(dir_.file("none")), ErrorCode::kNotFound);
  EXPECT_EQ(open_code(dir_.file("plain/below")), ErrorCode::kNotFound);
  EXPECT_EQ(open_code(""), ErrorCode::kNotFound);
}

TEST_F(FileTest, WhatIsNoRegularFileIsBadInputAndDoesNotHang) {
  const std::string fifo = dir_.file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(open_code(fifo), ErrorCode::kBadInput);
  EXPECT_EQ(open_code(dir_.path()), ErrorCode::kBadInput);
  EXPECT_EQ(open_code("/dev/null"), ErrorCode::kBadInput);

  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = dir_.file("socket");
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(open_code(path), ErrorCode::kBadInput);
  close(fd);
}

TEST_F(FileTest, APathWithANulNamesNoOtherFile) {
  write_file(dir_.file("f"), "x");
  const std::string path = dir_.file("f") + std::string("\0.gguf", 6);
  EXPECT_EQ(open_code(path), ErrorCode::kBadInput);
  EXPECT_FALSE(real_file_system().exists(path));
  EXPECT_FALSE(real_file_system().is_directory(dir_.path() + std::string(1, '\0')));
  EXPECT_EQ(real_file_system().list(dir_.path() + std::string(1, '\0')).error().code, ErrorCode::kBadInput);
}

TEST_F(FileTest, ControlCharactersOfAPathDoNotReachTheMessage) {
  const auto file = real_file_system().open(dir_.file("\x1b[2J"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message.find('\x1b'), std::string::npos);
}

TEST_F(FileTest, DescriptorsAreNotInheritedByChildPrograms) {
  write_file(dir_.file("f"), "x");
  const auto file = open(dir_.file("f"));
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry.path(), ignored) != dir_.file("f")) continue;
    ++found;
    EXPECT_NE(fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(found, 1);
}

TEST_F(FileTest, ListsADirectorySorted) {
  write_file(dir_.file("b"), "");
  write_file(dir_.file("a"), "");
  std::filesystem::create_directory(dir_.file("c"));
  EXPECT_EQ(*real_file_system().list(dir_.path()), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(real_file_system().list(dir_.file("none")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(real_file_system().list(dir_.file("a")).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(real_file_system().exists(dir_.file("a")));
  EXPECT_FALSE(real_file_system().exists(dir_.file("none")));
  EXPECT_TRUE(real_file_system().is_directory(dir_.file("c")));
  EXPECT_FALSE(real_file_system().is_directory(dir_.file("a")));
}

TEST_F(FileTest, ThreadsReadOneFileAtOnce) {
  std::string content(1 << 16, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 3);
  write_file(dir_.file("f"), content);
  const auto file = open(dir_.file("f"));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<std::byte> buffer(100);
      for (size_t offset = thread; offset + buffer.size() <= content.size(); offset += 97) {
        if (!file->read_exact(offset, buffer).ok() || text_of(buffer) != content.substr(offset, 100)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(FileTest, SmallFilesAreReadWithoutKnowingTheirSize) {
  const auto status = read_small_file("/proc/self/status");
  ASSERT_TRUE(status.ok());
  EXPECT_NE(status->find("Pid:"), std::string::npos);
  write_file(dir_.file("f"), std::string(10000, 'x'));
  EXPECT_EQ(*read_small_file(dir_.file("f")), std::string(10000, 'x'));
  write_file(dir_.file("empty"), "");
  EXPECT_EQ(*read_small_file(dir_.file("empty")), "");
  write_file(dir_.file("big"), std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(read_small_file(dir_.file("big")).error().code, ErrorCode::kBadInput);
  EXPECT_EQ(read_small_file(dir_.file("none")).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace strata
