"""What the person sees: widgets and pictures. Numpy in, pixels out; torch is never imported here."""
