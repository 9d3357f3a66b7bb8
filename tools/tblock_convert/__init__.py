"""Readers of published checkpoints and tokenizers, and the writer of tblock's model file (docs/format.md).

The modules, lower ones first:
  errors       the one exception that becomes the one error line
  jsonfile     strict JSON
  source       the files that are read, and their hashes
  safetensors  bytes -> named tensors
  floats       F32, F16, BF16: conversion, rounding, non-finite values
  panels       a matrix as panels of 16 rows, and back
  protobuf     just enough of the wire format for tokenizer.model
  trie, charsmap   tries of the model file; SentencePiece's character map
  vocab        a tokenizer in memory -> tok.* tensors, hash tables and tries
  bytelevel    byte-level BPE: stand-ins of bytes, split patterns by name
  hf_steps, hf_tokenizer   tokenizer.json: what is around the model, and the model
  sentencepiece, gpt2_files, tiktoken, llama2c_vocab, tokenizers   the other tokenizer files, and which one a file is
  model        the config of the model file, the tensors it must have, a checkpoint in memory
  families     Hugging Face: config keys and tensor names of each family, as tables
  hf_config, hf, llama2c   the checkpoint sources
  plan         checkpoint and vocabulary -> the list of tensors to write
  writer       the model file, atomically
  cli          options, progress, summary, exit status
"""
