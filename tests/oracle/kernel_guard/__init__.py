"""Runs compiled kernels of libraries with guard bytes around all that they are given: an oracle for workspace.

`server.c` is a program that loads a shared library of kernels and calls its functions in a memory image, by name. With
the library it is built for 32 bits, for this computer or for one that an emulator has. The environment variables
EDGEMEM_CMSIS_NN and EDGEMEM_ESP_NN_KERNELS have the command that starts it, such as `./server ./cmsis_nn.so` or
`qemu-arm -L /usr/arm-linux-gnueabihf ./server ./cmsis_nn.so`. Each random operator gets the workspace that the product
counts, and has to leave the bytes before and behind each piece, each result and each input as they were.
"""
