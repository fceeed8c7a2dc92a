"""Which delay a source should declare: measured on its log, row by row, with what each choice costs and keeps."""
