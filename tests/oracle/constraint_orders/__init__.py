"""Orders by constraint programming, as OLLA has them: exact and slow. An oracle for `edgemem.schedule`."""
